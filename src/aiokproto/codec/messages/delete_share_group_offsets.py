"""DeleteShareGroupOffsets (ApiKey 92): forget where the topics of a share group begin."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, string, uuid


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: string
    topic_id: uuid
    error_code: int16
    error_message: string | None = field(default=None)


class DeleteShareGroupOffsetsResponse(Response, key=92, versions="0", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = field(default=None)
    responses: list[DeleteShareGroupOffsetsResponseTopic]


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: string


class DeleteShareGroupOffsetsRequest(
    Request[DeleteShareGroupOffsetsResponse], key=92, versions="0", flexible="0+", route=Route.GROUP
):
    group_id: string
    topics: list[DeleteShareGroupOffsetsRequestTopic]
