"""OffsetFetch (ApiKey 9): how far groups have read."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string, uuid
from aiokproto.codec.wire import ZERO_UUID


class OffsetFetchResponsePartition(Struct):
    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = field("5-7", default=-1, ignorable=True)
    metadata: string | None
    error_code: int16


class OffsetFetchResponseTopic(Struct):
    name: string
    partitions: list[OffsetFetchResponsePartition]


class OffsetFetchResponsePartitions(Struct):
    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = field(default=-1)
    metadata: string | None
    error_code: int16


class OffsetFetchResponseTopics(Struct):
    name: string = field("8-9", default="", ignorable=True)
    topic_id: uuid = field("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions]


class OffsetFetchResponseGroup(Struct):
    group_id: string
    topics: list[OffsetFetchResponseTopics]
    error_code: int16 = field(default=0)


class OffsetFetchResponse(Response, key=9, versions="0-10", flexible="6+"):
    throttle_time_ms: int32 = field("3+", default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field("0-7", factory=list)
    error_code: int16 = field("2-7", default=0, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field("8+", factory=list)


class OffsetFetchRequestTopic(Struct):
    name: string
    partition_indexes: list[int32]


class OffsetFetchRequestTopics(Struct):
    name: string = field("8-9", default="", ignorable=True)
    topic_id: uuid = field("10+", default=ZERO_UUID, ignorable=True)
    partition_indexes: list[int32]


class OffsetFetchRequestGroup(Struct):
    group_id: string
    member_id: string | None = field("9+", default=None, ignorable=True)
    member_epoch: int32 = field("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None


class OffsetFetchRequest(Request[OffsetFetchResponse], key=9, versions="0-10", flexible="6+", route=Route.GROUP):
    group_id: string = field("0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = field("0-7", nullable="2-7", factory=list)
    groups: list[OffsetFetchRequestGroup] = field("8+", factory=list)
    require_stable: bool = field("7+", default=False)
