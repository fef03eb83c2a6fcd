"""OffsetForLeaderEpoch (ApiKey 23): where leader epochs end: what tells a truncated log from a grown one."""

from __future__ import annotations

from aiokproto.codec.schema import (
    BrokerId,
    PartitionIndex,
    Request,
    Response,
    Route,
    Struct,
    TopicName,
    field,
    int16,
    int32,
    int64,
)


class EpochEndOffset(Struct):
    error_code: int16 = 0
    partition: PartitionIndex = 0
    leader_epoch: int32 = field("1+", default=-1, ignorable=True)
    end_offset: int64 = -1


class OffsetForLeaderTopicResult(Struct):
    topic: TopicName = ""
    partitions: list[EpochEndOffset] = field(factory=list)


class OffsetForLeaderEpochResponse(Response, key=23, versions="0-4", flexible="4+"):
    throttle_time_ms: int32 = field("2+", default=0, ignorable=True)
    topics: list[OffsetForLeaderTopicResult] = field(factory=list)


class OffsetForLeaderPartition(Struct):
    partition: PartitionIndex = 0
    current_leader_epoch: int32 = field("2+", default=-1, ignorable=True)
    leader_epoch: int32 = 0


class OffsetForLeaderTopic(Struct):
    topic: TopicName = ""
    partitions: list[OffsetForLeaderPartition] = field(factory=list)


class OffsetForLeaderEpochRequest(
    Request[OffsetForLeaderEpochResponse], key=23, versions="0-4", flexible="4+", route=Route.LEADERS
):
    replica_id: BrokerId = field("3+", default=-2, ignorable=True)
    topics: list[OffsetForLeaderTopic] = field(factory=list)
