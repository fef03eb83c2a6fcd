"""OffsetDelete (ApiKey 47): forget a group's offsets of single partitions."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, int16, int32, string


class OffsetDeleteResponsePartition(Struct):
    partition_index: int32
    error_code: int16


class OffsetDeleteResponseTopic(Struct):
    name: string
    partitions: list[OffsetDeleteResponsePartition]


class OffsetDeleteResponse(Response, key=47, versions="0"):
    error_code: int16
    throttle_time_ms: int32
    topics: list[OffsetDeleteResponseTopic]


class OffsetDeleteRequestPartition(Struct):
    partition_index: int32


class OffsetDeleteRequestTopic(Struct):
    name: string
    partitions: list[OffsetDeleteRequestPartition]


class OffsetDeleteRequest(Request[OffsetDeleteResponse], key=47, versions="0", route=Route.GROUP):
    group_id: string
    topics: list[OffsetDeleteRequestTopic]
