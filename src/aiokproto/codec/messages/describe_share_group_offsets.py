"""DescribeShareGroupOffsets (ApiKey 90): where the partitions of share groups start."""

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


class DescribeShareGroupOffsetsResponsePartition(Struct):
    """The state of one partition."""

    partition_index: PartitionIndex = 0
    start_offset: int64 = 0
    """Share-partition start offset: earlier records are done; -1: not initialized."""
    leader_epoch: int32 = field(default=0, refused=-1)
    """Leader epoch of the partition."""
    lag: int64 = field("1+", default=-1, ignorable=True)
    """Records between the start offset and the end of the partition that are not yet delivered (KIP-1226); -1:
    unknown."""
    error_code: int16 = 0
    error_message: string | None = None


class DescribeShareGroupOffsetsResponseTopic(Struct):
    """The partitions of one topic."""

    topic_name: TopicName = ""
    topic_id: TopicId = ZERO_UUID
    partitions: list[DescribeShareGroupOffsetsResponsePartition] = field(factory=list)


class DescribeShareGroupOffsetsResponseGroup(Struct):
    """A group."""

    group_id: GroupId = ""
    """The group."""
    topics: list[DescribeShareGroupOffsetsResponseTopic] = field(factory=list)
    error_code: int16 = 0
    error_message: string | None = None


class DescribeShareGroupOffsetsResponse(Response, key=90, versions="0-1", flexible="0+"):
    """The start offsets of each group. Errors: see `DescribeShareGroupOffsetsRequest`."""

    throttle_time_ms: int32 = 0
    groups: list[DescribeShareGroupOffsetsResponseGroup] = field(factory=list)


class DescribeShareGroupOffsetsRequestTopic(Struct):
    """Partitions of one topic."""

    topic_name: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class DescribeShareGroupOffsetsRequestGroup(Struct):
    """A group and the partitions to describe."""

    group_id: GroupId = ""
    """The group."""
    topics: list[DescribeShareGroupOffsetsRequestTopic] | None = field(factory=list)
    """Partitions to describe; null: all that the group has state for."""


class DescribeShareGroupOffsetsRequest(
    Request[DescribeShareGroupOffsetsResponse], key=90, versions="0-1", flexible="0+", route=Route.GROUP
):
    """Read the start offsets of share groups (KIP-932).

    Sent by admin tools to the groups' coordinators.

    Errors: per group: GROUP_AUTHORIZATION_FAILED, GROUP_ID_NOT_FOUND, NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE,
    COORDINATOR_LOAD_IN_PROGRESS, INVALID_REQUEST, UNSUPPORTED_VERSION (share groups are disabled),
    UNKNOWN_SERVER_ERROR; per partition: TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION.
    """

    groups: list[DescribeShareGroupOffsetsRequestGroup] = field(factory=list)
