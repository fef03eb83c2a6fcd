"""DescribeProducers (ApiKey 61): the producers with state in partitions, and their open transactions."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string


class ProducerState(Struct):
    producer_id: int64
    producer_epoch: int32
    last_sequence: int32 = field(default=-1)
    last_timestamp: int64 = field(default=-1)
    coordinator_epoch: int32
    current_txn_start_offset: int64 = field(default=-1)


class PartitionResponse(Struct):
    partition_index: int32
    error_code: int16
    error_message: string | None = field(default=None)
    active_producers: list[ProducerState]


class TopicResponse(Struct):
    name: string
    partitions: list[PartitionResponse]


class DescribeProducersResponse(Response, key=61, versions="0", flexible="0+"):
    throttle_time_ms: int32
    topics: list[TopicResponse]


class TopicRequest(Struct):
    name: string
    partition_indexes: list[int32]


class DescribeProducersRequest(
    Request[DescribeProducersResponse], key=61, versions="0", flexible="0+", route=Route.LEADER
):
    topics: list[TopicRequest]
