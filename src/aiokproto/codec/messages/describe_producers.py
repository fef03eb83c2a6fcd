"""DescribeProducers (ApiKey 61): the producers with state in partitions, and their open transactions."""

from __future__ import annotations

from aiokproto.codec.schema import (
    PartitionIndex,
    ProducerId,
    Request,
    Response,
    Route,
    Struct,
    TopicName,
    field,
    int16,
    int32,
    int64,
    string,
)


class ProducerState(Struct):
    producer_id: ProducerId = 0
    producer_epoch: int32 = 0
    last_sequence: int32 = -1
    last_timestamp: int64 = -1
    coordinator_epoch: int32 = 0
    current_txn_start_offset: int64 = -1


class PartitionResponse(Struct):
    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = None
    active_producers: list[ProducerState] = field(factory=list)


class TopicResponse(Struct):
    name: TopicName = ""
    partitions: list[PartitionResponse] = field(factory=list)


class DescribeProducersResponse(Response, key=61, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    topics: list[TopicResponse] = field(factory=list)


class TopicRequest(Struct):
    name: TopicName = ""
    partition_indexes: list[PartitionIndex] = field(factory=list)


class DescribeProducersRequest(
    Request[DescribeProducersResponse], key=61, versions="0", flexible="0+", route=Route.LEADERS
):
    topics: list[TopicRequest] = field(factory=list)
