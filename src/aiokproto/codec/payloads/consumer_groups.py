"""The records of ``__consumer_offsets`` that consumer groups are kept in (KIP-848)."""

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
    group_id: GroupId = ""


class ConsumerGroupMetadataValue(Payload, versions="0", flexible="0+"):
    epoch: int32 = 0
    metadata_hash: int64 = field(tag=0, default=0)


class ConsumerGroupPartitionMetadataKey(Payload, versions="0"):
    group_id: GroupId = ""


class PartitionMetadata(Struct):
    partition: PartitionIndex = 0
    racks: list[string] = field(factory=list)


class TopicMetadata(Struct):
    topic_id: TopicId = ZERO_UUID
    topic_name: TopicName = ""
    num_partitions: int32 = 0
    partition_metadata: list[PartitionMetadata] = field(factory=list)


class ConsumerGroupPartitionMetadataValue(Payload, versions="0", flexible="0+"):
    topics: list[TopicMetadata] = field(factory=list)


class ConsumerGroupMemberMetadataKey(Payload, versions="0"):
    group_id: GroupId = ""
    member_id: string = ""


class ClassicProtocol(Struct):
    name: string = ""
    metadata: bytes = b""


class ClassicMemberMetadata(Struct):
    session_timeout_ms: int32 = 0
    supported_protocols: list[ClassicProtocol] = field(factory=list)


class ConsumerGroupMemberMetadataValue(Payload, versions="0", flexible="0+"):
    instance_id: string | None = ""
    rack_id: string | None = ""
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: list[TopicName] = field(factory=list)
    subscribed_topic_regex: string | None = ""
    rebalance_timeout_ms: int32 = -1
    server_assignor: string | None = ""
    classic_member_metadata: ClassicMemberMetadata | None = field(tag=0, factory=ClassicMemberMetadata)


class ConsumerGroupRegularExpressionKey(Payload, versions="0"):
    group_id: GroupId = ""
    regular_expression: string = ""


class ConsumerGroupRegularExpressionValue(Payload, versions="0", flexible="0+"):
    topics: list[TopicName] = field(factory=list)
    version: int64 = 0
    timestamp: int64 = 0


class ConsumerGroupTargetAssignmentMetadataKey(Payload, versions="0"):
    group_id: GroupId = ""


class ConsumerGroupTargetAssignmentMetadataValue(Payload, versions="0", flexible="0+"):
    assignment_epoch: int32 = 0
    assignment_timestamp: int64 = field(tag=0, default=0)


class ConsumerGroupTargetAssignmentMemberKey(Payload, versions="0"):
    group_id: GroupId = ""
    member_id: string = ""


class TopicPartition(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionIndex] = field(factory=list)


class ConsumerGroupTargetAssignmentMemberValue(Payload, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition] = field(factory=list)


class ConsumerGroupCurrentMemberAssignmentKey(Payload, versions="0"):
    group_id: GroupId = ""
    member_id: string = ""


class TopicPartitions(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionIndex] = field(factory=list)
    assignment_epochs: list[int32] | None = field(tag=0, factory=list)


class ConsumerGroupCurrentMemberAssignmentValue(Payload, versions="0", flexible="0+"):
    member_epoch: int32 = 0
    previous_member_epoch: int32 = 0
    state: int8 = 0
    assigned_partitions: list[TopicPartitions] = field(factory=list)
    partitions_pending_revocation: list[TopicPartitions] = field(factory=list)
