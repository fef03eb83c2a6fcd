"""AddPartitionsToTxn (ApiKey 24): partitions that a transaction writes to."""

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
)


class AddPartitionsToTxnResult(Struct):
    transactional_id: TransactionalId = ""
    topic_results: list[AddPartitionsToTxnTopicResult] = field(factory=list)


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: PartitionIndex = 0
    partition_error_code: int16 = 0


class AddPartitionsToTxnTopicResult(Struct):
    name: TopicName = ""
    results_by_partition: list[AddPartitionsToTxnPartitionResult] = field(factory=list)


class AddPartitionsToTxnResponse(Response, key=24, versions="0-5", flexible="3+", client_throttles="1+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = field("4+", default=0, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field("4+", factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field("0-3", factory=list)


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: TransactionalId = ""
    producer_id: ProducerId = 0
    producer_epoch: int16 = 0
    verify_only: bool = False
    topics: list[AddPartitionsToTxnTopic] = field(factory=list)


class AddPartitionsToTxnTopic(Struct):
    name: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class AddPartitionsToTxnRequest(
    Request[AddPartitionsToTxnResponse], key=24, versions="0-5", flexible="3+", route=Route.TRANSACTION
):
    transactions: list[AddPartitionsToTxnTransaction] = field("4+", factory=list)
    v3_and_below_transactional_id: TransactionalId = field("0-3", default="")
    v3_and_below_producer_id: ProducerId = field("0-3", default=0)
    v3_and_below_producer_epoch: int16 = field("0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field("0-3", factory=list)
