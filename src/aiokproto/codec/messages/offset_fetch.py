"""OffsetFetch (ApiKey 9): how far groups have read."""

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


class OffsetFetchResponsePartition(Struct):
    partition_index: PartitionIndex = 0
    committed_offset: int64 = field(default=0, refused=-1)
    committed_leader_epoch: int32 = field("5-7", default=-1, ignorable=True)
    metadata: string | None = ""
    error_code: int16 = 0


class OffsetFetchResponseTopic(Struct):
    name: TopicName = ""
    partitions: list[OffsetFetchResponsePartition] = field(factory=list)


class OffsetFetchResponsePartitions(Struct):
    partition_index: PartitionIndex = 0
    committed_offset: int64 = field(default=0, refused=-1)
    committed_leader_epoch: int32 = -1
    metadata: string | None = ""
    error_code: int16 = 0


class OffsetFetchResponseTopics(Struct):
    name: TopicName = field("8-9", default="", ignorable=True)
    topic_id: TopicId = field("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = field(factory=list)


class OffsetFetchResponseGroup(Struct):
    group_id: GroupId = ""
    topics: list[OffsetFetchResponseTopics] = field(factory=list)
    error_code: int16 = 0


class OffsetFetchResponse(Response, key=9, versions="0-10", flexible="6+", client_throttles="4+"):
    throttle_time_ms: int32 = field("3+", default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field("0-7", factory=list)
    error_code: int16 = field("2-7", default=0, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field("8+", factory=list)


class OffsetFetchRequestTopic(Struct):
    name: TopicName = ""
    partition_indexes: list[PartitionIndex] = field(factory=list)


class OffsetFetchRequestTopics(Struct):
    name: TopicName = field("8-9", default="", ignorable=True)
    topic_id: TopicId = field("10+", default=ZERO_UUID, ignorable=True)
    partition_indexes: list[PartitionIndex] = field(factory=list)


class OffsetFetchRequestGroup(Struct):
    group_id: GroupId = ""
    member_id: string | None = field("9+", default=None, ignorable=True)
    member_epoch: int32 = field("9+", default=-1, ignorable=True)
    topics: list[OffsetFetchRequestTopics] | None = field(factory=list)


class OffsetFetchRequest(Request[OffsetFetchResponse], key=9, versions="0-10", flexible="6+", route=Route.GROUP):
    group_id: GroupId = field("0-7", default="")
    topics: list[OffsetFetchRequestTopic] | None = field("0-7", nullable="2-7", factory=list)
    groups: list[OffsetFetchRequestGroup] = field("8+", factory=list)
    require_stable: bool = field("7+", default=False)
