"""DeleteTopics (ApiKey 20): remove topics by name or id."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, string, uuid
from aiokproto.codec.wire import ZERO_UUID


class DeletableTopicResult(Struct):
    name: string | None = field(nullable="6+")
    topic_id: uuid = field("6+", default=ZERO_UUID, ignorable=True)
    error_code: int16
    error_message: string | None = field("5+", default=None, ignorable=True)


class DeleteTopicsResponse(Response, key=20, versions="0-6", flexible="4+"):
    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    responses: list[DeletableTopicResult]


class DeleteTopicState(Struct):
    name: string | None = field(default=None)
    topic_id: uuid


class DeleteTopicsRequest(Request[DeleteTopicsResponse], key=20, versions="0-6", flexible="4+", route=Route.CONTROLLER):
    topics: list[DeleteTopicState] = field("6+", factory=list)
    topic_names: list[string] = field("0-5", factory=list, ignorable=True)
    timeout_ms: int32
