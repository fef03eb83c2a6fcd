"""OffsetCommit (ApiKey 8): store how far a group has read."""

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


class OffsetCommitResponsePartition(Struct):
    partition_index: PartitionIndex = 0
    error_code: int16 = 0


class OffsetCommitResponseTopic(Struct):
    name: TopicName = field("0-9", default="", ignorable=True)
    topic_id: TopicId = field("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitResponsePartition] = field(factory=list)


class OffsetCommitResponse(Response, key=8, versions="0-10", flexible="8+", client_throttles="4+"):
    throttle_time_ms: int32 = field("3+", default=0, ignorable=True)
    topics: list[OffsetCommitResponseTopic] = field(factory=list)


class OffsetCommitRequestPartition(Struct):
    partition_index: PartitionIndex = 0
    committed_offset: int64 = 0
    committed_leader_epoch: int32 = field("6+", default=-1, ignorable=True)
    commit_timestamp: int64 = field("1", default=-1)
    committed_metadata: string | None = ""


class OffsetCommitRequestTopic(Struct):
    name: TopicName = field("0-9", default="", ignorable=True)
    topic_id: TopicId = field("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetCommitRequestPartition] = field(factory=list)


class OffsetCommitRequest(Request[OffsetCommitResponse], key=8, versions="0-10", flexible="8+", route=Route.GROUP):
    group_id: GroupId = ""
    generation_id_or_member_epoch: int32 = field("1+", default=-1, ignorable=True)
    member_id: string = field("1+", default="", ignorable=True)
    group_instance_id: string | None = field("7+", default=None)
    retention_time_ms: int64 = field("2-4", default=-1, ignorable=True)
    topics: list[OffsetCommitRequestTopic] = field(factory=list)
