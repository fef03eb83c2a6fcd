"""The records of consumer groups in ``__consumer_offsets`` (KIP-848)."""

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


class ConsumerGroupMetadataKey(Payload, versions="0"):
    """Key of a consumer group's epoch."""

    group_id: GroupId = ""
    """Id of the group."""


class ConsumerGroupMetadataValue(Payload, versions="0", flexible="0+"):
    """Epoch of a consumer group."""

    epoch: int32 = 0
    """Group epoch: grows when members, subscriptions or topics change."""
    metadata_hash: int64 = field(tag=0, default=0)
    """Hash of the subscribed topics (KIP-1101). A different one causes a rebalance."""


class ConsumerGroupPartitionMetadataKey(Payload, versions="0"):
    """Key of the topics that a consumer group subscribes to, before Kafka 4.1."""

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
    """Racks of the partitions; empty: unknown, as always since Kafka 4.0."""


class ConsumerGroupPartitionMetadataValue(Payload, versions="0", flexible="0+"):
    """Topics that a consumer group subscribes to, before Kafka 4.1.

    `metadata_hash` of `ConsumerGroupMetadataValue` replaces this record.
    """

    topics: list[TopicMetadata] = field(factory=list)
    """Topics as of the group epoch."""


class ConsumerGroupMemberMetadataKey(Payload, versions="0"):
    """Key of a consumer group's member."""

    group_id: GroupId = ""
    """Id of the group."""
    member_id: string = ""
    """Id of the member."""


class ClassicProtocol(Struct):
    """An assignor that a classic member supports."""

    name: string = ""
    """Name of the assignor."""
    metadata: bytes = b""
    """Subscription of the member, as in JoinGroup."""


class ClassicMemberMetadata(Struct):
    """JoinGroup data of a member that uses the classic protocol, during a migration to the consumer protocol."""

    session_timeout_ms: int32 = 0
    """Time without a heartbeat after which the member is removed, in ms."""
    supported_protocols: list[ClassicProtocol] = field(factory=list)
    """Assignors that the member supports, in its order of preference."""


class ConsumerGroupMemberMetadataValue(Payload, versions="0", flexible="0+"):
    """Metadata that a member of a consumer group has sent about itself."""

    instance_id: string | None = ""
    """Static member id (`group.instance.id`); null: a dynamic member."""
    rack_id: string | None = ""
    """Rack of the member (`client.rack`); null: unknown."""
    client_id: string = ""
    """Client id of the member's requests."""
    client_host: string = ""
    """Address that the member connects from."""
    subscribed_topic_names: list[TopicName] = field(factory=list)
    """Topics the member subscribes to by name."""
    subscribed_topic_regex: string | None = ""
    """Regular expression (RE2) for additional topics; null or empty: none."""
    rebalance_timeout_ms: int32 = -1
    """How long the coordinator waits for the member to revoke partitions, in ms; -1: unknown."""
    server_assignor: string | None = ""
    """Server-side assignor that the member requests; null: none."""
    classic_member_metadata: ClassicMemberMetadata | None = field(tag=0, factory=ClassicMemberMetadata)
    """Set while the member uses the classic protocol; null: it uses the consumer protocol."""


class ConsumerGroupRegularExpressionKey(Payload, versions="0"):
    """Key of a regular expression that members subscribe to."""

    group_id: GroupId = ""
    """Id of the group."""
    regular_expression: string = ""
    """The regular expression (RE2)."""


class ConsumerGroupRegularExpressionValue(Payload, versions="0", flexible="0+"):
    """Topics that a regular expression matched when it was last evaluated."""

    topics: list[TopicName] = field(factory=list)
    """Topics that matched and that a member may describe."""
    version: int64 = 0
    """Version (offset) of the metadata image that the expression was evaluated on."""
    timestamp: int64 = 0
    """Time of the evaluation, in ms since 1970."""


class ConsumerGroupTargetAssignmentMetadataKey(Payload, versions="0"):
    """Key of the epoch of a consumer group's target assignment."""

    group_id: GroupId = ""
    """Id of the group."""


class ConsumerGroupTargetAssignmentMetadataValue(Payload, versions="0", flexible="0+"):
    """Epoch of a consumer group's target assignment."""

    assignment_epoch: int32 = 0
    """Group epoch that the target assignment was computed for."""
    assignment_timestamp: int64 = field(tag=0, default=0)
    """Time the computation finished, in ms since 1970 (KIP-1263); 0: unknown."""


class ConsumerGroupTargetAssignmentMemberKey(Payload, versions="0"):
    """Key of a member's target assignment."""

    group_id: GroupId = ""
    """Id of the group."""
    member_id: string = ""
    """Id of the member."""


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionIndex] = field(factory=list)


class ConsumerGroupTargetAssignmentMemberValue(Payload, versions="0", flexible="0+"):
    """Target assignment of a member: what it will own once the group is reconciled."""

    topic_partitions: list[TopicPartition] = field(factory=list)
    """Partitions that the member should own."""


class ConsumerGroupCurrentMemberAssignmentKey(Payload, versions="0"):
    """Key of a member's current assignment."""

    group_id: GroupId = ""
    """Id of the group."""
    member_id: string = ""
    """Id of the member."""


class TopicPartitions(Struct):
    """Partitions of one topic that a member owns."""

    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionIndex] = field(factory=list)
    assignment_epochs: list[int32] | None = field(tag=0, factory=list)
    """Member epoch at which each of `partitions` was assigned, in the same order. The coordinator uses it to validate
    offset commits (KIP-1251). Null or empty: unknown."""


class ConsumerGroupCurrentMemberAssignmentValue(Payload, versions="0", flexible="0+"):
    """Current assignment of a member, and the progress of its reconciliation."""

    member_epoch: int32 = 0
    """Epoch that the member sends with its next heartbeat."""
    previous_member_epoch: int32 = 0
    """Previous epoch, which the member may still send if it didn't receive the last response."""
    state: int8 = 0
    """0: STABLE; 1: UNREVOKED_PARTITIONS, the member has partitions to revoke; 2: UNRELEASED_PARTITIONS, it waits for
    partitions of other members."""
    assigned_partitions: list[TopicPartitions] = field(factory=list)
    """Partitions that the member owns."""
    partitions_pending_revocation: list[TopicPartitions] = field(factory=list)
    """Partitions that the member has to revoke."""
