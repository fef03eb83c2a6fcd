"""OffsetFetch (ApiKey 9): read the committed offsets of groups."""

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


class OffsetFetchResponsePartition(Struct):
    """Committed offset of a partition, up to version 7."""

    partition_index: PartitionIndex = 0
    committed_offset: int64 = field(default=0, refused=-1)
    """Offset of the next record to read; -1: none committed, which isn't an error."""
    committed_leader_epoch: int32 = field("5-7", default=-1, ignorable=True)
    """Leader epoch of the last processed record; -1: unknown."""
    metadata: string | None = ""
    """String stored with the commit; empty: none."""
    error_code: int16 = 0


class OffsetFetchResponseTopic(Struct):
    """Committed offsets of a topic, up to version 7."""

    name: TopicName = ""
    partitions: list[OffsetFetchResponsePartition] = field(factory=list)


class OffsetFetchResponsePartitions(Struct):
    """Committed offset of a partition, since version 8."""

    partition_index: PartitionIndex = 0
    committed_offset: int64 = field(default=0, refused=-1)
    """Offset of the next record to read; -1: none committed, which isn't an error."""
    committed_leader_epoch: int32 = -1
    """Leader epoch of the last processed record; -1: unknown."""
    metadata: string | None = ""
    """String stored with the commit; empty: none."""
    error_code: int16 = 0


class OffsetFetchResponseTopics(Struct):
    """Committed offsets of a topic, since version 8."""

    name: TopicName = field("8-9", default="", ignorable=True)
    topic_id: TopicId = field("10+", default=ZERO_UUID, ignorable=True)
    partitions: list[OffsetFetchResponsePartitions] = field(factory=list)


class OffsetFetchResponseGroup(Struct):
    """The result of one group."""

    group_id: GroupId = ""
    """Id of the group."""
    topics: list[OffsetFetchResponseTopics] = field(factory=list)
    error_code: int16 = 0


class OffsetFetchResponse(Response, key=9, versions="0-10", flexible="6+", client_throttles="4+"):
    """Committed offsets: of one group in `topics` up to version 7, or of several groups in `groups` since version 8.

    Errors: see `OffsetFetchRequest`.
    """

    throttle_time_ms: int32 = field("3+", default=0, ignorable=True)
    topics: list[OffsetFetchResponseTopic] = field("0-7", factory=list)
    """Offsets of the requested group, up to version 7."""
    error_code: int16 = field("2-7", default=0, ignorable=True)
    groups: list[OffsetFetchResponseGroup] = field("8+", factory=list)
    """Offsets of each requested group, since version 8."""


class OffsetFetchRequestTopic(Struct):
    """Partitions of a topic, up to version 7."""

    name: TopicName = ""
    partition_indexes: list[PartitionIndex] = field(factory=list)


class OffsetFetchRequestTopics(Struct):
    """Partitions of a topic, since version 8."""

    name: TopicName = field("8-9", default="", ignorable=True)
    topic_id: TopicId = field("10+", default=ZERO_UUID, ignorable=True)
    partition_indexes: list[PartitionIndex] = field(factory=list)


class OffsetFetchRequestGroup(Struct):
    """A group whose offsets to read."""

    group_id: GroupId = ""
    """Group to read."""
    member_id: string | None = field("9+", default=None, ignorable=True)
    """Id of the member that reads, to check its epoch (KIP-848); null or empty: not checked."""
    member_epoch: int32 = field("9+", default=-1, ignorable=True)
    """Epoch of that member; -1: not checked."""
    topics: list[OffsetFetchRequestTopics] | None = field(factory=list)
    """Partitions to read; null: all with a committed offset."""


class OffsetFetchRequest(Request[OffsetFetchResponse], key=9, versions="0-10", flexible="6+", route=Route.GROUP):
    """Read the committed offsets of groups.

    Sent by consumers and admin tools to the group coordinator; all `groups` of a request have the same coordinator.

    Errors: per group (top level in versions 2-7, on each partition in versions 0-1): COORDINATOR_NOT_AVAILABLE,
    COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, GROUP_AUTHORIZATION_FAILED,
    UNKNOWN_MEMBER_ID and STALE_MEMBER_EPOCH (version 9+); per partition: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID
    (version 10+), TOPIC_AUTHORIZATION_FAILED, UNSTABLE_OFFSET_COMMIT (version 7+: retry).
    """

    group_id: GroupId = field("0-7", default="")
    """Group to read, up to version 7."""
    topics: list[OffsetFetchRequestTopic] | None = field("0-7", nullable="2-7", factory=list)
    """Partitions to read, up to version 7; null (version 2+): all with a committed offset."""
    groups: list[OffsetFetchRequestGroup] = field("8+", factory=list)
    """Groups to read, since version 8 (KIP-709)."""
    require_stable: bool = field("7+", default=False)
    """True: for a partition with offsets of an open transaction, return UNSTABLE_OFFSET_COMMIT instead of the older
    offset (KIP-447)."""
