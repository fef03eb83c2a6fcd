"""DescribeTopicPartitions (ApiKey 75): topics and their partitions, page by page."""

from __future__ import annotations

from aiokproto.codec.schema import (
    BrokerId,
    PartitionIndex,
    Request,
    Response,
    Route,
    Struct,
    TopicId,
    TopicName,
    field,
    int16,
    int32,
)
from aiokproto.codec.wire import ZERO_UUID


class DescribeTopicPartitionsResponsePartition(Struct):
    error_code: int16 = 0
    partition_index: PartitionIndex = 0
    leader_id: BrokerId = field(default=0, refused=-1)
    leader_epoch: int32 = -1
    replica_nodes: list[BrokerId] = field(factory=list)
    isr_nodes: list[BrokerId] = field(factory=list)
    eligible_leader_replicas: list[BrokerId] | None = None
    last_known_elr: list[BrokerId] | None = None
    offline_replicas: list[BrokerId] = field(factory=list)


class DescribeTopicPartitionsResponseTopic(Struct):
    error_code: int16 = 0
    name: TopicName | None = ""
    topic_id: TopicId = ZERO_UUID
    is_internal: bool = False
    partitions: list[DescribeTopicPartitionsResponsePartition] = field(factory=list)
    topic_authorized_operations: int32 = -2147483648


class Cursor(Struct):
    topic_name: TopicName = ""
    partition_index: PartitionIndex = 0


class DescribeTopicPartitionsResponse(Response, key=75, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    topics: list[DescribeTopicPartitionsResponseTopic] = field(factory=list)
    next_cursor: Cursor | None = None


class TopicRequest(Struct):
    name: TopicName = ""


class DescribeTopicPartitionsRequest(
    Request[DescribeTopicPartitionsResponse], key=75, versions="0", flexible="0+", route=Route.ANY
):
    topics: list[TopicRequest] = field(factory=list)
    response_partition_limit: int32 = 2000
    cursor: Cursor | None = None
