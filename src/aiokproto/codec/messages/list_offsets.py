"""ListOffsets (ApiKey 2): the first, last, or time-stamped offsets of partitions."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, int64, string


class ListOffsetsPartitionResponse(Struct):
    partition_index: int32
    error_code: int16
    old_style_offsets: list[int64] = field("0", factory=list)
    timestamp: int64 = field("1+", default=-1)
    offset: int64 = field("1+", default=-1)
    leader_epoch: int32 = field("4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    name: string
    partitions: list[ListOffsetsPartitionResponse]


class ListOffsetsResponse(Response, key=2, versions="0-11", flexible="6+"):
    throttle_time_ms: int32 = field("2+", default=0, ignorable=True)
    topics: list[ListOffsetsTopicResponse]


class ListOffsetsPartition(Struct):
    partition_index: int32
    current_leader_epoch: int32 = field("4+", default=-1, ignorable=True)
    timestamp: int64
    max_num_offsets: int32 = field("0", default=1)


class ListOffsetsTopic(Struct):
    name: string
    partitions: list[ListOffsetsPartition]


class ListOffsetsRequest(Request[ListOffsetsResponse], key=2, versions="0-11", flexible="6+", route=Route.LEADER):
    replica_id: int32
    isolation_level: int8 = field("2+", default=0)
    topics: list[ListOffsetsTopic]
    timeout_ms: int32 = field("10+", default=0, ignorable=True)
