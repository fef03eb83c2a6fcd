"""The records of share groups in ``__consumer_offsets`` (KIP-932)."""

from __future__ import annotations

from aiokproto.codec.schema import (
    GroupId,
    PartitionIndex,
    Payload,
    Struct,
    TopicId,
    TopicName,
    field,
    int8,
    int32,
    int64,
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class ShareGroupMetadataKey(Payload, versions="0"):
    """Key of a share group's epoch."""

    group_id: GroupId = ""
    """Id of the group."""


class ShareGroupMetadataValue(Payload, versions="0", flexible="0+"):
    """Epoch of a share group."""

    epoch: int32 = 0
    """Group epoch: grows when members, subscriptions or topics change."""
    metadata_hash: int64 = 0
    """Hash of the subscribed topics (KIP-1101). A different one causes a new assignment."""


class ShareGroupPartitionMetadataKey(Payload, versions="9"):
    """Key of the topics that a share group subscribes to, before Kafka 4.1."""

    group_id: GroupId = ""
    """Id of the group."""


class PartitionMetadata(Struct):
    """Racks of one partition."""

    partition: PartitionIndex = 0
    racks: list[string] = field(factory=list)
    """Racks of the replicas."""


class TopicMetadata(Struct):
    """A topic that the group subscribes to."""

    topic_id: TopicId = ZERO_UUID
    topic_name: TopicName = ""
    num_partitions: int32 = 0
    """Number of partitions as of the group epoch."""
    partition_metadata: list[PartitionMetadata] = field(factory=list)
    """Racks of the partitions; empty: unknown."""


class ShareGroupPartitionMetadataValue(Payload, versions="0", flexible="0+"):
    """Topics that a share group subscribes to, before Kafka 4.1.

    `metadata_hash` of `ShareGroupMetadataValue` replaces this record.
    """

    topics: list[TopicMetadata] = field(factory=list)
    """Topics as of the group epoch."""


class ShareGroupMemberMetadataKey(Payload, versions="0"):
    """Key of a share group's member."""

    group_id: GroupId = ""
    """Id of the group."""
    member_id: string = ""
    """Id of the member."""


class ShareGroupMemberMetadataValue(Payload, versions="0", flexible="0+"):
    """Metadata that a member of a share group has sent about itself."""

    rack_id: string | None = ""
    """Rack of the member (`client.rack`); null: unknown."""
    client_id: string = ""
    """Client id of the member's requests."""
    client_host: string = ""
    """Address that the member connects from."""
    subscribed_topic_names: list[TopicName] = field(factory=list)
    """Topics the member subscribes to."""


class ShareGroupTargetAssignmentMetadataKey(Payload, versions="0"):
    """Key of the epoch of a share group's target assignment."""

    group_id: GroupId = ""
    """Id of the group."""


class ShareGroupTargetAssignmentMetadataValue(Payload, versions="0", flexible="0+"):
    """Epoch of a share group's target assignment."""

    assignment_epoch: int32 = 0
    """Group epoch that the target assignment was computed for."""
    assignment_timestamp: int64 = field(tag=0, default=0)
    """Time the computation finished, in ms since 1970 (KIP-1263); 0: unknown."""


class ShareGroupTargetAssignmentMemberKey(Payload, versions="0"):
    """Key of a member's target assignment."""

    group_id: GroupId = ""
    """Id of the group."""
    member_id: string = ""
    """Id of the member."""


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionIndex] = field(factory=list)


class ShareGroupTargetAssignmentMemberValue(Payload, versions="0", flexible="0+"):
    """Target assignment of a member."""

    topic_partitions: list[TopicPartition] = field(factory=list)
    """Partitions that the member should read."""


class ShareGroupCurrentMemberAssignmentKey(Payload, versions="0"):
    """Key of a member's current assignment."""

    group_id: GroupId = ""
    """Id of the group."""
    member_id: string = ""
    """Id of the member."""


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionIndex] = field(factory=list)


class ShareGroupCurrentMemberAssignmentValue(Payload, versions="0", flexible="0+"):
    """Current assignment of a member."""

    member_epoch: int32 = 0
    """Epoch that the member sends with its next heartbeat."""
    previous_member_epoch: int32 = 0
    """Previous epoch, which the member may still send if it didn't receive the last response."""
    state: int8 = 0
    """0: STABLE. Share groups don't revoke partitions, so there is no other state."""
    assigned_partitions: list[TopicPartitions] = field(factory=list)
    """Partitions that the member reads; other members may read them as well."""


class ShareGroupStatePartitionMetadataKey(Payload, versions="0"):
    """Key of the partitions for which a share group has state."""

    group_id: GroupId = ""
    """Id of the group."""


class TopicPartitionsInfo(Struct):
    """Partitions of one topic."""

    topic_id: TopicId = ZERO_UUID
    topic_name: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class TopicInfo(Struct):
    """A topic."""

    topic_id: TopicId = ZERO_UUID
    topic_name: TopicName = ""


class ShareGroupStatePartitionMetadataValue(Payload, versions="0", flexible="0+"):
    """Partitions for which the share coordinator keeps state of a share group."""

    initializing_topics: list[TopicPartitionsInfo] = field(factory=list)
    """Partitions whose state is being initialized."""
    initialized_topics: list[TopicPartitionsInfo] = field(factory=list)
    """Partitions whose state is initialized: they can be assigned to members."""
    deleting_topics: list[TopicInfo] = field(factory=list)
    """Topics whose state is being deleted."""
