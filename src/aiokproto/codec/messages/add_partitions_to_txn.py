"""AddPartitionsToTxn (ApiKey 24): partitions that a transaction writes to."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string


class AddPartitionsToTxnResult(Struct):
    transactional_id: string
    topic_results: list[AddPartitionsToTxnTopicResult]


class AddPartitionsToTxnPartitionResult(Struct):
    partition_index: int32
    partition_error_code: int16


class AddPartitionsToTxnTopicResult(Struct):
    name: string
    results_by_partition: list[AddPartitionsToTxnPartitionResult]


class AddPartitionsToTxnResponse(Response, key=24, versions="0-5", flexible="3+"):
    throttle_time_ms: int32
    error_code: int16 = field("4+", default=0, ignorable=True)
    results_by_transaction: list[AddPartitionsToTxnResult] = field("4+", factory=list)
    results_by_topic_v3_and_below: list[AddPartitionsToTxnTopicResult] = field("0-3", factory=list)


class AddPartitionsToTxnTransaction(Struct):
    transactional_id: string
    producer_id: int64
    producer_epoch: int16
    verify_only: bool = field(default=False)
    topics: list[AddPartitionsToTxnTopic]


class AddPartitionsToTxnTopic(Struct):
    name: string
    partitions: list[int32]


class AddPartitionsToTxnRequest(
    Request[AddPartitionsToTxnResponse], key=24, versions="0-5", flexible="3+", route=Route.TRANSACTION
):
    transactions: list[AddPartitionsToTxnTransaction] = field("4+", factory=list)
    v3_and_below_transactional_id: string = field("0-3", default="")
    v3_and_below_producer_id: int64 = field("0-3", default=0)
    v3_and_below_producer_epoch: int16 = field("0-3", default=0)
    v3_and_below_topics: list[AddPartitionsToTxnTopic] = field("0-3", factory=list)
