"""DescribeTransactions (ApiKey 65): state and partitions of transactions."""

from __future__ import annotations

from aiokproto.codec.schema import (
    PartitionIndex,
    ProducerId,
    Request,
    Response,
    Route,
    Struct,
    TopicName,
    TransactionalId,
    field,
    int16,
    int32,
    int64,
    string,
)


class TopicData(Struct):
    """Partitions of one topic."""

    topic: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class TransactionState(Struct):
    """A transaction, or the error from describing it."""

    error_code: int16 = 0
    transactional_id: TransactionalId = ""
    """The transactional id."""
    transaction_state: string = ""
    """`Empty`, `Ongoing`, `PrepareCommit`, `PrepareAbort`, `CompleteCommit`, `CompleteAbort` or `PrepareEpochFence`."""
    transaction_timeout_ms: int32 = 0
    """Time after which the coordinator aborts the transaction, in ms."""
    transaction_start_time_ms: int64 = 0
    """Time the transaction started, in ms since 1970; -1: none is open."""
    producer_id: ProducerId = field(default=0, refused=-1)
    """The producer id."""
    producer_epoch: int16 = field(default=0, refused=-1)
    """Epoch of the producer."""
    topics: list[TopicData] = field(factory=list)


class DescribeTransactionsResponse(Response, key=65, versions="0", flexible="0+"):
    """One state per transactional id. Errors: see `DescribeTransactionsRequest`."""

    throttle_time_ms: int32 = 0
    transaction_states: list[TransactionState] = field(factory=list)


class DescribeTransactionsRequest(
    Request[DescribeTransactionsResponse], key=65, versions="0", flexible="0+", route=Route.TRANSACTION
):
    """Describe the transactions of transactional ids (KIP-664).

    Sent by admin tools to the coordinators of the ids.

    Errors: per id: TRANSACTIONAL_ID_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_NOT_FOUND, INVALID_REQUEST,
    NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS.
    """

    transactional_ids: list[TransactionalId] = field(factory=list)
    """Transactional ids to describe."""
