"""DeleteShareGroupOffsets (ApiKey 92): forget where the topics of a share group begin."""

from __future__ import annotations

from aiokproto.codec.schema import (
    GroupId,
    Request,
    Response,
    Route,
    Struct,
    TopicId,
    TopicName,
    field,
    int16,
    int32,
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class DeleteShareGroupOffsetsResponseTopic(Struct):
    topic_name: TopicName = ""
    topic_id: TopicId = ZERO_UUID
    error_code: int16 = 0
    error_message: string | None = None


class DeleteShareGroupOffsetsResponse(Response, key=92, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(factory=list)


class DeleteShareGroupOffsetsRequestTopic(Struct):
    topic_name: TopicName = ""


class DeleteShareGroupOffsetsRequest(
    Request[DeleteShareGroupOffsetsResponse], key=92, versions="0", flexible="0+", route=Route.GROUP
):
    group_id: GroupId = ""
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(factory=list)
