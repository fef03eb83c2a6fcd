"""The records of ``__consumer_offsets`` that share groups are kept in (KIP-932)."""

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
    group_id: GroupId = ""


class ShareGroupMetadataValue(Payload, versions="0", flexible="0+"):
    epoch: int32 = 0
    metadata_hash: int64 = 0


class ShareGroupPartitionMetadataKey(Payload, versions="9"):
    group_id: GroupId = ""


class PartitionMetadata(Struct):
    partition: PartitionIndex = 0
    racks: list[string] = field(factory=list)


class TopicMetadata(Struct):
    topic_id: TopicId = ZERO_UUID
    topic_name: TopicName = ""
    num_partitions: int32 = 0
    partition_metadata: list[PartitionMetadata] = field(factory=list)


class ShareGroupPartitionMetadataValue(Payload, versions="0", flexible="0+"):
    topics: list[TopicMetadata] = field(factory=list)


class ShareGroupMemberMetadataKey(Payload, versions="0"):
    group_id: GroupId = ""
    member_id: string = ""


class ShareGroupMemberMetadataValue(Payload, versions="0", flexible="0+"):
    rack_id: string | None = ""
    client_id: string = ""
    client_host: string = ""
    subscribed_topic_names: list[TopicName] = field(factory=list)


class ShareGroupTargetAssignmentMetadataKey(Payload, versions="0"):
    group_id: GroupId = ""


class ShareGroupTargetAssignmentMetadataValue(Payload, versions="0", flexible="0+"):
    assignment_epoch: int32 = 0
    assignment_timestamp: int64 = field(tag=0, default=0)


class ShareGroupTargetAssignmentMemberKey(Payload, versions="0"):
    group_id: GroupId = ""
    member_id: string = ""


class TopicPartition(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionIndex] = field(factory=list)


class ShareGroupTargetAssignmentMemberValue(Payload, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition] = field(factory=list)


class ShareGroupCurrentMemberAssignmentKey(Payload, versions="0"):
    group_id: GroupId = ""
    member_id: string = ""


class TopicPartitions(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionIndex] = field(factory=list)


class ShareGroupCurrentMemberAssignmentValue(Payload, versions="0", flexible="0+"):
    member_epoch: int32 = 0
    previous_member_epoch: int32 = 0
    state: int8 = 0
    assigned_partitions: list[TopicPartitions] = field(factory=list)


class ShareGroupStatePartitionMetadataKey(Payload, versions="0"):
    group_id: GroupId = ""


class TopicPartitionsInfo(Struct):
    topic_id: TopicId = ZERO_UUID
    topic_name: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class TopicInfo(Struct):
    topic_id: TopicId = ZERO_UUID
    topic_name: TopicName = ""


class ShareGroupStatePartitionMetadataValue(Payload, versions="0", flexible="0+"):
    initializing_topics: list[TopicPartitionsInfo] = field(factory=list)
    initialized_topics: list[TopicPartitionsInfo] = field(factory=list)
    deleting_topics: list[TopicInfo] = field(factory=list)
