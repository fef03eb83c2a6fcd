"""DescribeShareGroupOffsets (ApiKey 90): where the partitions of share groups begin."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string, uuid


class DescribeShareGroupOffsetsResponsePartition(Struct):
    partition_index: int32
    start_offset: int64
    leader_epoch: int32
    lag: int64 = field("1+", default=-1, ignorable=True)
    error_code: int16
    error_message: string | None = field(default=None)


class DescribeShareGroupOffsetsResponseTopic(Struct):
    topic_name: string
    topic_id: uuid
    partitions: list[DescribeShareGroupOffsetsResponsePartition]


class DescribeShareGroupOffsetsResponseGroup(Struct):
    group_id: string
    topics: list[DescribeShareGroupOffsetsResponseTopic]
    error_code: int16
    error_message: string | None = field(default=None)


class DescribeShareGroupOffsetsResponse(Response, key=90, versions="0-1", flexible="0+"):
    throttle_time_ms: int32
    groups: list[DescribeShareGroupOffsetsResponseGroup]


class DescribeShareGroupOffsetsRequestTopic(Struct):
    topic_name: string
    partitions: list[int32]


class DescribeShareGroupOffsetsRequestGroup(Struct):
    group_id: string
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None


class DescribeShareGroupOffsetsRequest(
    Request[DescribeShareGroupOffsetsResponse], key=90, versions="0-1", flexible="0+", route=Route.GROUP
):
    groups: list[DescribeShareGroupOffsetsRequestGroup]
