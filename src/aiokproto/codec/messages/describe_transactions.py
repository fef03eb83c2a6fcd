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
    topic: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class TransactionState(Struct):
    error_code: int16 = 0
    transactional_id: TransactionalId = ""
    transaction_state: string = ""
    transaction_timeout_ms: int32 = 0
    transaction_start_time_ms: int64 = 0
    producer_id: ProducerId = field(default=0, refused=-1)
    producer_epoch: int16 = field(default=0, refused=-1)
    topics: list[TopicData] = field(factory=list)


class DescribeTransactionsResponse(Response, key=65, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    transaction_states: list[TransactionState] = field(factory=list)


class DescribeTransactionsRequest(
    Request[DescribeTransactionsResponse], key=65, versions="0", flexible="0+", route=Route.TRANSACTION
):
    transactional_ids: list[TransactionalId] = field(factory=list)
