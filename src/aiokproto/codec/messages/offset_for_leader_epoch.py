"""OffsetForLeaderEpoch (ApiKey 23): where leader epochs end: what tells a truncated log from a grown one."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string


class EpochEndOffset(Struct):
    error_code: int16
    partition: int32
    leader_epoch: int32 = field("1+", default=-1, ignorable=True)
    end_offset: int64 = field(default=-1)


class OffsetForLeaderTopicResult(Struct):
    topic: string
    partitions: list[EpochEndOffset]


class OffsetForLeaderEpochResponse(Response, key=23, versions="0-4", flexible="4+"):
    throttle_time_ms: int32 = field("2+", default=0, ignorable=True)
    topics: list[OffsetForLeaderTopicResult]


class OffsetForLeaderPartition(Struct):
    partition: int32
    current_leader_epoch: int32 = field("2+", default=-1, ignorable=True)
    leader_epoch: int32


class OffsetForLeaderTopic(Struct):
    topic: string
    partitions: list[OffsetForLeaderPartition]


class OffsetForLeaderEpochRequest(
    Request[OffsetForLeaderEpochResponse], key=23, versions="0-4", flexible="4+", route=Route.LEADER
):
    replica_id: int32 = field("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic]
