"""AlterShareGroupOffsets (ApiKey 91): set where the partitions of a share group begin."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string, uuid


class AlterShareGroupOffsetsResponsePartition(Struct):
    partition_index: int32
    error_code: int16
    error_message: string | None = field(default=None)


class AlterShareGroupOffsetsResponseTopic(Struct):
    topic_name: string
    topic_id: uuid
    partitions: list[AlterShareGroupOffsetsResponsePartition]


class AlterShareGroupOffsetsResponse(Response, key=91, versions="0", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = field(default=None)
    responses: list[AlterShareGroupOffsetsResponseTopic]


class AlterShareGroupOffsetsRequestPartition(Struct):
    partition_index: int32
    start_offset: int64


class AlterShareGroupOffsetsRequestTopic(Struct):
    topic_name: string
    partitions: list[AlterShareGroupOffsetsRequestPartition]


class AlterShareGroupOffsetsRequest(
    Request[AlterShareGroupOffsetsResponse], key=91, versions="0", flexible="0+", route=Route.GROUP
):
    group_id: string
    topics: list[AlterShareGroupOffsetsRequestTopic]
