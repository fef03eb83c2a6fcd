"""DescribeShareGroupOffsets (ApiKey 90): where the partitions of share groups begin."""

from __future__ import annotations

from aiokproto.codec.schema import (
    GroupId,
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
    int64,
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: PartitionIndex = 0
    start_offset: int64 = 0
    leader_epoch: int32 = field(default=0, refused=-1)
    lag: int64 = field("1+", default=-1, ignorable=True)
    error_code: int16 = 0
    error_message: string | None = None


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: TopicName = ""
    topic_id: TopicId = ZERO_UUID
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(factory=list)


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: GroupId = ""
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(factory=list)
    error_code: int16 = 0
    error_message: string | None = None


class DescribeShareGroupOffsetsResponse(Response, key=90, versions="0-1", flexible="0+"):
    throttle_time_ms: int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(factory=list)


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: GroupId = ""
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(factory=list)


class DescribeShareGroupOffsetsRequest(
    Request[DescribeShareGroupOffsetsResponse], key=90, versions="0-1", flexible="0+", route=Route.GROUP
):
    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(factory=list)
