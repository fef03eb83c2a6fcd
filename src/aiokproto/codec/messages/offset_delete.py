"""OffsetDelete (ApiKey 47): delete committed offsets of a group."""

from __future__ import annotations

from aiokproto.codec.schema import (
    GroupId,
    PartitionIndex,
    Request,
    Response,
    Route,
    Struct,
    TopicName,
    field,
    int16,
    int32,
)


class OffsetDeleteResponsePartition(Struct):
    """The result of one partition."""

    partition_index: PartitionIndex = 0
    error_code: int16 = 0


class OffsetDeleteResponseTopic(Struct):
    """Results of one topic."""

    name: TopicName = ""
    partitions: list[OffsetDeleteResponsePartition] = field(factory=list)


class OffsetDeleteResponse(Response, key=47, versions="0"):
    """One result per partition. Errors: see `OffsetDeleteRequest`."""

    error_code: int16 = 0
    throttle_time_ms: int32 = 0
    topics: list[OffsetDeleteResponseTopic] = field(factory=list)


class OffsetDeleteRequestPartition(Struct):
    """A partition whose offset to delete."""

    partition_index: PartitionIndex = 0


class OffsetDeleteRequestTopic(Struct):
    """Partitions of one topic."""

    name: TopicName = ""
    partitions: list[OffsetDeleteRequestPartition] = field(factory=list)


class OffsetDeleteRequest(Request[OffsetDeleteResponse], key=47, versions="0", route=Route.GROUP):
    """Delete the committed offsets of partitions (KIP-496).

    Sent by admin tools to the group coordinator. Partitions of topics that a live member subscribes to are not deleted.

    Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, INVALID_GROUP_ID,
    GROUP_ID_NOT_FOUND, GROUP_AUTHORIZATION_FAILED, NON_EMPTY_GROUP (a group with members whose protocol type is not
    "consumer"); per partition: GROUP_SUBSCRIBED_TO_TOPIC, TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION.
    """

    group_id: GroupId = ""
    """Group whose offsets are deleted."""
    topics: list[OffsetDeleteRequestTopic] = field(factory=list)
