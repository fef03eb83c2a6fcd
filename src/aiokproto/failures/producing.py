"""Failures of Produce, InitProducerId and the transaction APIs (KIP-98, KIP-360, KIP-588, KIP-890)."""

from __future__ import annotations

from aiokproto.error_codes import ErrorCode as Code
from aiokproto.errors import DecodeError
from aiokproto.failures.action import Action, Row, Rows, Table, otherwise, rows
from aiokproto.failures.common import COORDINATED, NO_SUCH_API

_FENCED = rows(
    Action.STOP,
    "another producer has taken over the transactional id",
    Code.PRODUCER_FENCED,
    Code.INVALID_PRODUCER_EPOCH,
)
_FORGOTTEN_ID = rows(
    Action.ABORT_TRANSACTION,
    "the coordinator has forgotten the producer id; the next epoch is obtained after the abort (KIP-360)",
    Code.UNKNOWN_PRODUCER_ID,
    Code.INVALID_PRODUCER_ID_MAPPING,
)
_ABORTABLE: Rows = {Code.TRANSACTION_ABORTABLE: Row(Action.ABORT_TRANSACTION, "the broker says so (KIP-890)")}
_UNKNOWN_OUTCOME: Rows = {DecodeError: Row(Action.BACKOFF, "only a retry shows whether it was done")}

_COORDINATED_TXN: Rows = {
    **COORDINATED,
    **NO_SUCH_API,
    **_UNKNOWN_OUTCOME,
    **_FENCED,
    **_FORGOTTEN_ID,
    **_ABORTABLE,
    **otherwise(Action.STOP, "the coordinator's state of this transactional id is not the one the producer has"),
}

PRODUCE = Table(
    {
        **NO_SUCH_API,
        **_UNKNOWN_OUTCOME,
        Code.DUPLICATE_SEQUENCE_NUMBER: Row(
            Action.ACCEPT, "an earlier attempt is in the log, so far back that the broker has forgotten where"
        ),
        **otherwise(Action.FAIL, "the same batch would be refused again"),
    },
    when=(
        (
            "divisible",
            # Java divides after the first code alone. The second means "larger than a segment", which parts are not.
            rows(
                Action.SPLIT_BATCH,
                "a smaller batch can fit",
                Code.MESSAGE_TOO_LARGE,
                Code.RECORD_LIST_TOO_LARGE,
            ),
        ),
        (
            "idempotent",
            {
                **rows(
                    Action.RESTART_SEQUENCE,
                    "the broker lost its state of this producer, or a failed batch left a gap",
                    Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    Code.UNKNOWN_PRODUCER_ID,
                ),
                # Java fails the batch and goes on in the next epoch; nothing is lost by sending it in that epoch too.
                **rows(
                    Action.NEW_PRODUCER_ID,
                    "the broker knows a later epoch of this id, or not this id",
                    Code.INVALID_PRODUCER_EPOCH,
                    Code.INVALID_PRODUCER_ID_MAPPING,
                ),
                Code.PRODUCER_FENCED: Row(Action.STOP, "another producer has this id"),
            },
        ),
        (
            "transactional",
            {
                Code.PRODUCER_FENCED: Row(Action.STOP, "another producer has taken over the transactional id"),
                **rows(
                    Action.STOP,
                    "the right to use the transactional id is gone",
                    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                    Code.CLUSTER_AUTHORIZATION_FAILED,
                ),
                # InvalidProducerEpoch too: whether it means "fenced" is answered by InitProducerId (KIP-588).
                **otherwise(Action.ABORT_TRANSACTION, "a transaction with a record missing must not be committed"),
            },
        ),
    ),
)

INIT_PRODUCER_ID = Table(
    {
        **NO_SUCH_API,
        **_UNKNOWN_OUTCOME,
        **otherwise(Action.FAIL, "no id: what waits for one cannot be sent. The right to have one may be granted yet"),
    },
    when=(
        (
            "transactional",
            {
                **COORDINATED,
                **_FENCED,
                **_ABORTABLE,
                **rows(
                    Action.FAIL,
                    "the right may be granted while the producer lives",
                    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                    Code.CLUSTER_AUTHORIZATION_FAILED,
                ),
                **otherwise(Action.STOP, "the transactional id cannot be used as it is set up"),
            },
        ),
    ),
)

ADD_PARTITIONS_TO_TXN = Table(
    {
        **_COORDINATED_TXN,
        **rows(
            Action.STOP,
            "the transactional id may not be used, or not in this state",
            Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            Code.INVALID_TXN_STATE,
        ),
        **otherwise(Action.ABORT_TRANSACTION, "a partition cannot be part of it; other partitions can of the next"),
    }
)

ADD_OFFSETS_TO_TXN = Table(
    {
        **_COORDINATED_TXN,
        Code.GROUP_AUTHORIZATION_FAILED: Row(Action.ABORT_TRANSACTION, "this group's offsets cannot be part of it"),
    }
)

TXN_OFFSET_COMMIT = Table(
    {
        **_COORDINATED_TXN,
        Code.REQUEST_TIMED_OUT: Row(Action.FIND_COORDINATOR, "the coordinator cannot replicate: it may be cut off"),
        Code.GROUP_AUTHORIZATION_FAILED: Row(Action.ABORT_TRANSACTION, "this group's offsets cannot be part of it"),
        # Java stops. A right that is missing on one topic is no reason not to write to others.
        Code.TOPIC_AUTHORIZATION_FAILED: Row(Action.ABORT_TRANSACTION, "this topic's offsets cannot be part of it"),
        **rows(
            Action.ABORT_TRANSACTION,
            "the group went on without the consumer whose offsets these are",
            Code.FENCED_INSTANCE_ID,
            Code.UNKNOWN_MEMBER_ID,
            Code.ILLEGAL_GENERATION,
            Code.STALE_MEMBER_EPOCH,
        ),
    }
)

END_TXN = Table(_COORDINATED_TXN)
