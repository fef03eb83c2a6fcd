"""AlterShareGroupOffsets (ApiKey 91): set where the partitions of a share group begin."""

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


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = None


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: TopicName = ""
    topic_id: TopicId = ZERO_UUID
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(factory=list)


class AlterShareGroupOffsetsResponse(Response, key=91, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(factory=list)


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: PartitionIndex = 0
    start_offset: int64 = 0


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: TopicName = ""
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(factory=list)


class AlterShareGroupOffsetsRequest(
    Request[AlterShareGroupOffsetsResponse], key=91, versions="0", flexible="0+", route=Route.GROUP
):
    group_id: GroupId = ""
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(factory=list)
