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
_EPOCH_REFUSED = rows(
    Action.CHECK_EPOCH,
    "another producer has taken over the transactional id, or the transaction has timed out",
    Code.PRODUCER_FENCED,
    Code.INVALID_PRODUCER_EPOCH,
)
_UNKNOWN_ID = rows(
    Action.ABORT_TRANSACTION,
    "the coordinator has expired the producer id; the producer gets its next epoch after the abort (KIP-360)",
    Code.UNKNOWN_PRODUCER_ID,
    Code.INVALID_PRODUCER_ID_MAPPING,
)
_ABORTABLE: Rows = {Code.TRANSACTION_ABORTABLE: Row(Action.ABORT_TRANSACTION, "the broker requires an abort (KIP-890)")}
_UNKNOWN_OUTCOME: Rows = {DecodeError: Row(Action.BACKOFF, "only a retry shows whether the broker executed it")}

_COORDINATED_TXN: Rows = {
    **COORDINATED,
    **NO_SUCH_API,
    **_UNKNOWN_OUTCOME,
    **_EPOCH_REFUSED,
    **_UNKNOWN_ID,
    **_ABORTABLE,
    **otherwise(Action.STOP, "coordinator and producer disagree about the state of the transactional id"),
}

PRODUCE = Table(
    {
        **NO_SUCH_API,
        **_UNKNOWN_OUTCOME,
        Code.DUPLICATE_SEQUENCE_NUMBER: Row(
            Action.ACCEPT, "an earlier attempt is in the log, before the five batches whose offsets the broker keeps"
        ),
        **otherwise(Action.FAIL, "the same batch would be rejected again"),
    },
    when=(
        (
            "divisible",
            # Java splits only after the first code. The second one means "larger than a segment", which the parts
            # aren't.
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
                # Java fails the batch and continues in the next epoch. But the batch wasn't appended, so it can be sent
                # in that epoch too.
                **rows(
                    Action.NEW_PRODUCER_ID,
                    "the broker has a later epoch of this producer id, or does not know the id",
                    Code.INVALID_PRODUCER_EPOCH,
                    Code.INVALID_PRODUCER_ID_MAPPING,
                ),
                Code.PRODUCER_FENCED: Row(Action.STOP, "another producer uses this producer id"),
            },
        ),
        (
            # This comes before "transactional", whose last row would abort for this code.
            "overtaken",
            {
                Code.OUT_OF_ORDER_SEQUENCE_NUMBER: Row(
                    Action.BACKOFF, "the batch before it was rejected and is retried; this one is valid after it"
                )
            },
        ),
        (
            "transactional",
            {
                **_EPOCH_REFUSED,
                **rows(
                    Action.STOP,
                    "the client may no longer use the transactional id",
                    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                    Code.CLUSTER_AUTHORIZATION_FAILED,
                ),
                **otherwise(Action.ABORT_TRANSACTION, "a transaction that lacks a record must not be committed"),
            },
        ),
    ),
)

INIT_PRODUCER_ID = Table(
    {
        **NO_SUCH_API,
        **_UNKNOWN_OUTCOME,
        # STOP would be too drastic: the ACL may be granted during the producer's lifetime.
        **otherwise(Action.FAIL, "without a producer id the waiting batches cannot be sent"),
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
                    "the ACL may be granted while the producer lives",
                    Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
                    Code.CLUSTER_AUTHORIZATION_FAILED,
                ),
                **otherwise(Action.STOP, "the coordinator rejects the transactional id or its timeout"),
            },
        ),
    ),
)

ADD_PARTITIONS_TO_TXN = Table(
    {
        **_COORDINATED_TXN,
        **rows(
            Action.STOP,
            "the client may not use the transactional id, or not in this state",
            Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            Code.INVALID_TXN_STATE,
        ),
        **otherwise(Action.ABORT_TRANSACTION, "a partition cannot be added; the next transaction can do without it"),
    }
)

DESCRIBE_TRANSACTIONS = Table(
    {
        **COORDINATED,
        **otherwise(Action.FAIL, "what the coordinator knows cannot be found out"),
    }
)

ADD_OFFSETS_TO_TXN = Table(
    {
        **_COORDINATED_TXN,
        Code.GROUP_AUTHORIZATION_FAILED: Row(Action.ABORT_TRANSACTION, "this group's offsets cannot be added"),
    }
)

TXN_OFFSET_COMMIT = Table(
    {
        **_COORDINATED_TXN,
        Code.REQUEST_TIMED_OUT: Row(Action.FIND_COORDINATOR, "the coordinator cannot replicate: it may be isolated"),
        Code.GROUP_AUTHORIZATION_FAILED: Row(Action.ABORT_TRANSACTION, "this group's offsets cannot be added"),
        # Java stops. But a missing ACL on one topic doesn't prevent the producer from writing to other topics.
        Code.TOPIC_AUTHORIZATION_FAILED: Row(Action.ABORT_TRANSACTION, "this topic's offsets cannot be added"),
        **rows(
            Action.ABORT_TRANSACTION,
            "the group has continued without the consumer that read up to these offsets",
            Code.FENCED_INSTANCE_ID,
            Code.UNKNOWN_MEMBER_ID,
            Code.ILLEGAL_GENERATION,
            Code.STALE_MEMBER_EPOCH,
            Code.GROUP_ID_NOT_FOUND,
        ),
    }
)

END_TXN = Table(
    {
        **_COORDINATED_TXN,
        # Java stops. But with version 2, this error is the producer's only notification of a timeout (KIP-890). If the
        # producer is fenced, the abort or InitProducerId reveals it.
        Code.INVALID_TXN_STATE: Row(Action.CHECK_EPOCH, "the coordinator has aborted the transaction"),
    },
    when=(
        (
            "aborting",
            {
                Code.TRANSACTION_ABORTABLE: Row(
                    Action.BACKOFF, "the broker requires an abort, which this is (KIP-890)"
                ),
                Code.INVALID_TXN_STATE: Row(Action.ABORT_TRANSACTION, "the coordinator knows of none to abort"),
            },
        ),
    ),
)
