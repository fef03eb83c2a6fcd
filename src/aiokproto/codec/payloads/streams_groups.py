"""The records of ``__consumer_offsets`` that streams groups are kept in (KIP-1071).

Beside them, what Kafka Streams' members of classic groups say in their subscriptions.
"""

from __future__ import annotations

from aiokproto.codec.schema import (
    GroupId,
    PartitionIndex,
    Payload,
    Struct,
    TopicName,
    field,
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)
from aiokproto.codec.wire import ZERO_UUID


class StreamsGroupMetadataKey(Payload, versions="0"):
    group_id: GroupId = ""


class LastAssignmentConfig(Struct):
    key: string = ""
    value: string = ""


class StreamsGroupMetadataValue(Payload, versions="0", flexible="0+"):
    epoch: int32 = 0
    metadata_hash: int64 = 0
    validated_topology_epoch: int32 = field(tag=0, default=-1)
    last_assignment_configs: list[LastAssignmentConfig] | None = field(tag=1, factory=list)
    stored_description_topology_epoch: int32 = field(tag=2, default=-1)
    failed_description_topology_epoch: int32 = field(tag=3, default=-1)


class StreamsGroupTopologyKey(Payload, versions="0"):
    group_id: GroupId = ""


class TopicConfig(Struct):
    key: string = ""
    value: string = ""


class TopicInfo(Struct):
    name: TopicName = ""
    partitions: int32 = 0
    replication_factor: int16 = 0
    topic_configs: list[TopicConfig] = field(factory=list)


class CopartitionGroup(Struct):
    source_topics: list[int16] = field(factory=list)
    source_topic_regex: list[int16] = field(factory=list)
    repartition_source_topics: list[int16] = field(factory=list)


class Subtopology(Struct):
    subtopology_id: string = ""
    source_topics: list[TopicName] = field(factory=list, mentioned=True)
    source_topic_regex: list[string] = field(factory=list)
    state_changelog_topics: list[TopicInfo] = field(factory=list)
    repartition_sink_topics: list[TopicName] = field(factory=list, mentioned=True)
    repartition_source_topics: list[TopicInfo] = field(factory=list)
    copartition_groups: list[CopartitionGroup] = field(factory=list)


class StreamsGroupTopologyValue(Payload, versions="0", flexible="0+"):
    epoch: int32 = 0
    subtopologies: list[Subtopology] = field(factory=list)


class StreamsGroupMemberMetadataKey(Payload, versions="0"):
    group_id: GroupId = ""
    member_id: string = ""


class Endpoint(Struct):
    host: string = ""
    port: uint16 = 0


class KeyValue(Struct):
    key: string = ""
    value: string = ""


class StreamsGroupMemberMetadataValue(Payload, versions="0", flexible="0+"):
    instance_id: string | None = ""
    rack_id: string | None = ""
    client_id: string = ""
    client_host: string = ""
    rebalance_timeout_ms: int32 = -1
    topology_epoch: int32 = 0
    process_id: string = ""
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] = field(factory=list)


class StreamsGroupTargetAssignmentMetadataKey(Payload, versions="0"):
    group_id: GroupId = ""


class StreamsGroupTargetAssignmentMetadataValue(Payload, versions="0", flexible="0+"):
    assignment_epoch: int32 = 0
    assignment_timestamp: int64 = field(tag=0, default=0)


class StreamsGroupTargetAssignmentMemberKey(Payload, versions="0"):
    group_id: GroupId = ""
    member_id: string = ""


class TargetTaskIds(Struct):
    subtopology_id: string = ""
    partitions: list[PartitionIndex] = field(factory=list)


class StreamsGroupTargetAssignmentMemberValue(Payload, versions="0", flexible="0+"):
    active_tasks: list[TargetTaskIds] = field(factory=list)
    standby_tasks: list[TargetTaskIds] = field(factory=list)
    warmup_tasks: list[TargetTaskIds] = field(factory=list)


class StreamsGroupCurrentMemberAssignmentKey(Payload, versions="0"):
    group_id: GroupId = ""
    member_id: string = ""


class TaskIds(Struct):
    subtopology_id: string = ""
    partitions: list[PartitionIndex] = field(factory=list)
    assignment_epochs: list[int32] | None = field(tag=0, factory=list)


class StreamsGroupCurrentMemberAssignmentValue(Payload, versions="0", flexible="0+"):
    member_epoch: int32 = 0
    previous_member_epoch: int32 = 0
    state: int8 = 0
    active_tasks: list[TaskIds] = field(factory=list)
    standby_tasks: list[TaskIds] = field(factory=list)
    warmup_tasks: list[TaskIds] = field(factory=list)
    active_tasks_pending_revocation: list[TaskIds] = field(factory=list)
    standby_tasks_pending_revocation: list[TaskIds] = field(factory=list)
    warmup_tasks_pending_revocation: list[TaskIds] = field(factory=list)


class TaskId(Struct):
    topic_group_id: int32 = 0
    partition: PartitionIndex = 0


class PartitionToOffsetSum(Struct):
    partition: PartitionIndex = 0
    offset_sum: int64 = 0


class TaskOffsetSum(Struct):
    topic_group_id: int32 = 0
    partition: PartitionIndex = field("10+", default=0)
    offset_sum: int64 = field("10+", default=0)
    named_topology: string | None = field("10+", default="")
    partition_to_offset_sum: list[PartitionToOffsetSum] = field("7-9", factory=list)


class ClientTag(Struct):
    key: bytes = b""
    value: bytes = b""


class SubscriptionInfoData(Payload, versions="1-11"):
    version: int32 = 0
    latest_supported_version: int32 = field("3+", default=-1)
    process_id: uuid = ZERO_UUID
    prev_tasks: list[TaskId] = field("1-6", factory=list)
    standby_tasks: list[TaskId] = field("1-6", factory=list)
    user_end_point: bytes = field("2+", default=b"")
    task_offset_sums: list[TaskOffsetSum] = field("7+", factory=list)
    unique_field: int8 = field("8+", default=0)
    error_code: int32 = field("9+", default=0)
    client_tags: list[ClientTag] = field("11+", factory=list)
