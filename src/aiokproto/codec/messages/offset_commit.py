"""OffsetCommit (ApiKey 8): store how far a group has read."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string, uuid
from aiokproto.codec.wire import ZERO_UUID


class OffsetCommitResponsePartition(Struct):
    partition_index: int32
    error_code: int16


class OffsetCommitResponseTopic(Struct):
    name: string = field("0-9", default="", ignorable=True)
    topic_id: uuid = field("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition]


class OffsetCommitResponse(Response, key=8, versions="0-10", flexible="8+"):
    throttle_time_ms: int32 = field("3+", default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic]


class OffsetCommitRequestPartition(Struct):
    partition_index: int32
    committed_offset: int64
    committed_leader_epoch: int32 = field("6+", default=-1, ignorable=True)
    commit_timestamp: int64 = field("1", default=-1)
    committed_metadata: string | None


class OffsetCommitRequestTopic(Struct):
    name: string = field("0-9", default="", ignorable=True)
    topic_id: uuid = field("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition]


class OffsetCommitRequest(Request[OffsetCommitResponse], key=8, versions="0-10", flexible="8+", route=Route.GROUP):
    group_id: string
    generation_id_or_member_epoch: int32 = field("1+", default=-1, ignorable=True)
    member_id: string = field("1+", default="", ignorable=True)
    group_instance_id: string | None = field("7+", default=None)
    retention_time_ms: int64 = field("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic]
