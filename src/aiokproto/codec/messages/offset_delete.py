"""OffsetDelete (ApiKey 47): forget a group's offsets of single partitions."""

from __future__ import annotations

from aiokproto.codec.schema import (
    GroupId,
    PartitionIndex,
    Request,
    Response,
    Route,
    Struct,
    TopicName,
    field,
    int16,
    int32,
)


class OffsetDeleteResponsePartition(Struct):
    partition_index: PartitionIndex = 0
    error_code: int16 = 0


class OffsetDeleteResponseTopic(Struct):
    name: TopicName = ""
    partitions: list[OffsetDeleteResponsePartition] = field(factory=list)


class OffsetDeleteResponse(Response, key=47, versions="0"):
    error_code: int16 = 0
    throttle_time_ms: int32 = 0
    topics: list[OffsetDeleteResponseTopic] = field(factory=list)


class OffsetDeleteRequestPartition(Struct):
    partition_index: PartitionIndex = 0


class OffsetDeleteRequestTopic(Struct):
    name: TopicName = ""
    partitions: list[OffsetDeleteRequestPartition] = field(factory=list)


class OffsetDeleteRequest(Request[OffsetDeleteResponse], key=47, versions="0", route=Route.GROUP):
    group_id: GroupId = ""
    topics: list[OffsetDeleteRequestTopic] = field(factory=list)
