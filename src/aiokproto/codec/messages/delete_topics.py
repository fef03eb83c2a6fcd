"""DeleteTopics (ApiKey 20): remove topics by name or id."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, TopicId, TopicName, field, int16, int32, string
from aiokproto.codec.wire import ZERO_UUID


class DeletableTopicResult(Struct):
    """The result of one topic."""

    name: TopicName | None = field(nullable="6+", default="")
    topic_id: TopicId = field("6+", default=ZERO_UUID, ignorable=True)
    error_code: int16 = 0
    error_message: string | None = field("5+", default=None, ignorable=True)


class DeleteTopicsResponse(Response, key=20, versions="0-6", flexible="4+", client_throttles="2+"):
    """One result per topic. Errors: see `DeleteTopicsRequest`."""

    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    responses: list[DeletableTopicResult] = field(factory=list)


class DeleteTopicState(Struct):
    """A topic to delete, by name or by id: name is null when the id is used."""

    name: TopicName | None = None
    topic_id: TopicId = ZERO_UUID


class DeleteTopicsRequest(Request[DeleteTopicsResponse], key=20, versions="0-6", flexible="4+", route=Route.CONTROLLER):
    """Delete topics.

    Sent by admin tools to the controller; brokers forward it.

    Errors: per topic: TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID,
    TOPIC_DELETION_DISABLED, INVALID_REQUEST, THROTTLING_QUOTA_EXCEEDED, REQUEST_TIMED_OUT, NOT_CONTROLLER.
    """

    topics: list[DeleteTopicState] = field("6+", factory=list)
    topic_names: list[TopicName] = field("0-5", factory=list, ignorable=True)
    timeout_ms: int32 = 0
    """How long the receiver may take, in ms."""
