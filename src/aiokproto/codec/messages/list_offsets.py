"""ListOffsets (ApiKey 2): the first, last, or time-stamped offsets of partitions."""

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
    int8,
    int16,
    int32,
    int64,
)


class ListOffsetsPartitionResponse(Struct):
    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    old_style_offsets: list[int64] = field("0", factory=list)
    timestamp: int64 = field("1+", default=-1)
    offset: int64 = field("1+", default=-1)
    leader_epoch: int32 = field("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: TopicName = ""
    partitions: list[ListOffsetsPartitionResponse] = field(factory=list)


class ListOffsetsResponse(Response, key=2, versions="0-11", flexible="6+", client_throttles="3+"):
    throttle_time_ms: int32 = field("2+", default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse] = field(factory=list)


class ListOffsetsPartition(Struct):
    partition_index: PartitionIndex = 0
    current_leader_epoch: int32 = field("4+", default=-1, ignorable=True)
    timestamp: int64 = 0
    max_num_offsets: int32 = field("0", default=1)


class ListOffsetsTopic(Struct):
    name: TopicName = ""
    partitions: list[ListOffsetsPartition] = field(factory=list)


class ListOffsetsRequest(Request[ListOffsetsResponse], key=2, versions="0-11", flexible="6+", route=Route.LEADERS):
    replica_id: BrokerId = 0
    isolation_level: int8 = field("2+", default=0)
    topics: list[ListOffsetsTopic] = field(factory=list)
    timeout_ms: int32 = field("10+", default=0, ignorable=True)
