"""DescribeTopicPartitions (ApiKey 75): topics and their partitions, page by page."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, string, uuid


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int16
    partition_index: int32
    leader_id: int32
    leader_epoch: int32 = field(default=-1)
    replica_nodes: list[int32]
    isr_nodes: list[int32]
    eligible_leader_replicas: list[int32] | None = field(default=None)
    last_known_elr: list[int32] | None = field(default=None)
    offline_replicas: list[int32]


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int16
    name: string | None
    topic_id: uuid
    is_internal: bool = field(default=False)
    partitions: list[DescribeTopicPartitionsResponsePartition]
    topic_authorized_operations: int32 = field(default=-2147483648)


class Cursor(Struct):
    topic_name: string
    partition_index: int32


class DescribeTopicPartitionsResponse(Response, key=75, versions="0", flexible="0+"):
    throttle_time_ms: int32
    topics: list[DescribeTopicPartitionsResponseTopic]
    next_cursor: Cursor | None = field(default=None)


class TopicRequest(Struct):
    name: string


class DescribeTopicPartitionsRequest(
    Request[DescribeTopicPartitionsResponse], key=75, versions="0", flexible="0+", route=Route.ANY
):
    topics: list[TopicRequest]
    response_partition_limit: int32 = field(default=2000)
    cursor: Cursor | None = field(default=None)
