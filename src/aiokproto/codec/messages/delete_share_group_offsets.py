"""DeleteShareGroupOffsets (ApiKey 92): forget where the topics of a share group start."""

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
    """The result of one topic."""

    topic_name: TopicName = ""
    topic_id: TopicId = ZERO_UUID
    error_code: int16 = 0
    error_message: string | None = None


class DeleteShareGroupOffsetsResponse(Response, key=92, versions="0", flexible="0+"):
    """One result per topic. Errors: see `DeleteShareGroupOffsetsRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    responses: list[DeleteShareGroupOffsetsResponseTopic] = field(factory=list)


class DeleteShareGroupOffsetsRequestTopic(Struct):
    """A topic to forget."""

    topic_name: TopicName = ""


class DeleteShareGroupOffsetsRequest(
    Request[DeleteShareGroupOffsetsResponse], key=92, versions="0", flexible="0+", route=Route.GROUP
):
    """Delete a share group's offsets for topics. The group must not have members (KIP-932).

    Sent by admin tools to the group's coordinator.

    Errors: GROUP_AUTHORIZATION_FAILED, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, NOT_COORDINATOR,
    COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, KAFKA_STORAGE_ERROR, INVALID_REQUEST,
    UNSUPPORTED_VERSION (share groups are disabled), UNKNOWN_SERVER_ERROR; per topic: TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_OR_PARTITION.
    """

    group_id: GroupId = ""
    """The group."""
    topics: list[DeleteShareGroupOffsetsRequestTopic] = field(factory=list)
