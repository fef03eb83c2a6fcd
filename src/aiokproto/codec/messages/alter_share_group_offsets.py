"""AlterShareGroupOffsets (ApiKey 91): set where the partitions of a share group start."""

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
    """The result of one partition."""

    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = None


class AlterShareGroupOffsetsResponseTopic(Struct):
    """The results of one topic."""

    topic_name: TopicName = ""
    topic_id: TopicId = ZERO_UUID
    partitions: list[AlterShareGroupOffsetsResponsePartition] = field(factory=list)


class AlterShareGroupOffsetsResponse(Response, key=91, versions="0", flexible="0+"):
    """One result per partition. Errors: see `AlterShareGroupOffsetsRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    responses: list[AlterShareGroupOffsetsResponseTopic] = field(factory=list)


class AlterShareGroupOffsetsRequestPartition(Struct):
    """The new start of one partition."""

    partition_index: PartitionIndex = 0
    start_offset: int64 = 0
    """Share-partition start offset to set: delivery continues there."""


class AlterShareGroupOffsetsRequestTopic(Struct):
    """The partitions of one topic."""

    topic_name: TopicName = ""
    partitions: list[AlterShareGroupOffsetsRequestPartition] = field(factory=list)


class AlterShareGroupOffsetsRequest(
    Request[AlterShareGroupOffsetsResponse], key=91, versions="0", flexible="0+", route=Route.GROUP
):
    """Set the start offsets of a share group without members (KIP-932).

    Sent by admin tools to the group's coordinator.

    Errors: GROUP_AUTHORIZATION_FAILED, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP, NOT_COORDINATOR,
    COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, KAFKA_STORAGE_ERROR, INVALID_REQUEST,
    UNSUPPORTED_VERSION (share groups are disabled), UNKNOWN_SERVER_ERROR; per partition:
    TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, and the errors of InitializeShareGroupState.
    """

    group_id: GroupId = ""
    """The group."""
    topics: list[AlterShareGroupOffsetsRequestTopic] = field(factory=list)
