"""The records of streams groups in ``__consumer_offsets`` (KIP-1071).

Also contains the user data in the subscriptions of Kafka Streams members in classic groups.
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
    """Key of a streams group's epoch."""

    group_id: GroupId = ""
    """Id of the group."""


class LastAssignmentConfig(Struct):
    """An option of the assignor."""

    key: string = ""
    """Name of the option, such as `num.standby.replicas`."""
    value: string = ""
    """Value of the option."""


class StreamsGroupMetadataValue(Payload, versions="0", flexible="0+"):
    """Epochs of a streams group."""

    epoch: int32 = 0
    """Group epoch: grows when members, topology or topics change."""
    metadata_hash: int64 = 0
    """Hash of the topics in the topology (KIP-1101). A different one causes a rebalance."""
    validated_topology_epoch: int32 = field(tag=0, default=-1)
    """Topology epoch whose topics all exist with matching partitions; -1: none."""
    last_assignment_configs: list[LastAssignmentConfig] | None = field(tag=1, factory=list)
    """Options that the assignor last used. Different ones cause a rebalance. Null or empty: none."""
    stored_description_topology_epoch: int32 = field(tag=2, default=-1)
    """Topology epoch whose description the broker's plugin has stored (KIP-1331); -1: none."""
    failed_description_topology_epoch: int32 = field(tag=3, default=-1)
    """Topology epoch whose description the plugin rejected permanently (KIP-1331); -1: none."""


class StreamsGroupTopologyKey(Payload, versions="0"):
    """Key of a streams group's topology."""

    group_id: GroupId = ""
    """Id of the group."""


class TopicConfig(Struct):
    """An option of an internal topic."""

    key: string = ""
    """Name of the option."""
    value: string = ""
    """Value of the option."""


class TopicInfo(Struct):
    """An internal topic that the group coordinator creates."""

    name: TopicName = ""
    partitions: int32 = 0
    """Number of partitions; 0: computed by the coordinator, as always for changelogs."""
    replication_factor: int16 = 0
    """Replicas per partition; 0: the broker's default."""
    topic_configs: list[TopicConfig] = field(factory=list)
    """Options of the topic."""


class CopartitionGroup(Struct):
    """Topics of a subtopology that must have the same number of partitions, as indexes into its lists."""

    source_topics: list[int16] = field(factory=list)
    """Indexes into `source_topics`."""
    source_topic_regex: list[int16] = field(factory=list)
    """Indexes into `source_topic_regex`."""
    repartition_source_topics: list[int16] = field(factory=list)
    """Indexes into `repartition_source_topics`."""


class Subtopology(Struct):
    """A connected part of the topology; a task is a subtopology and a partition."""

    subtopology_id: string = ""
    """Id of the subtopology, unique in the topology."""
    source_topics: list[TopicName] = field(factory=list, mentioned=True)
    """Topics the subtopology reads."""
    source_topic_regex: list[string] = field(factory=list)
    """Regular expressions (RE2) for additional topics it reads."""
    state_changelog_topics: list[TopicInfo] = field(factory=list)
    """Changelog topics of its state stores."""
    repartition_sink_topics: list[TopicName] = field(factory=list, mentioned=True)
    """Repartition topics it writes to."""
    repartition_source_topics: list[TopicInfo] = field(factory=list)
    """Repartition topics it reads."""
    copartition_groups: list[CopartitionGroup] = field(factory=list)
    """Topics that must have the same number of partitions."""


class StreamsGroupTopologyValue(Payload, versions="0", flexible="0+"):
    """Topology of a streams group, as its members sent it."""

    epoch: int32 = 0
    """Epoch of the topology, set by the application."""
    subtopologies: list[Subtopology] = field(factory=list)
    """Parts of the topology."""


class StreamsGroupMemberMetadataKey(Payload, versions="0"):
    """Key of a streams group's member."""

    group_id: GroupId = ""
    """Id of the group."""
    member_id: string = ""
    """Id of the member."""


class Endpoint(Struct):
    """Address of a Streams instance for Interactive Queries (`application.server`)."""

    host: string = ""
    """Host name or address to connect to."""
    port: uint16 = 0
    """TCP port."""


class KeyValue(Struct):
    """A client tag."""

    key: string = ""
    """Name of the tag."""
    value: string = ""
    """Value of the tag."""


class StreamsGroupMemberMetadataValue(Payload, versions="0", flexible="0+"):
    """Metadata that a member of a streams group has sent about itself."""

    instance_id: string | None = ""
    """Static member id (`group.instance.id`); null: a dynamic member."""
    rack_id: string | None = ""
    """Rack of the member (`client.rack`); null: unknown."""
    client_id: string = ""
    """Client id of the member's requests."""
    client_host: string = ""
    """Address that the member connects from."""
    rebalance_timeout_ms: int32 = -1
    """How long the coordinator waits for the member to revoke tasks, in ms; -1: unknown."""
    topology_epoch: int32 = 0
    """Epoch of the topology that the member runs."""
    process_id: string = ""
    """Id of the Streams instance, the same for all of its threads."""
    user_endpoint: Endpoint | None = None
    """Endpoint of the instance; null: none."""
    client_tags: list[KeyValue] = field(factory=list)
    """Tags for the rack-aware assignment of standby tasks."""


class StreamsGroupTargetAssignmentMetadataKey(Payload, versions="0"):
    """Key of the epoch of a streams group's target assignment."""

    group_id: GroupId = ""
    """Id of the group."""


class StreamsGroupTargetAssignmentMetadataValue(Payload, versions="0", flexible="0+"):
    """Epoch of a streams group's target assignment."""

    assignment_epoch: int32 = 0
    """Group epoch that the target assignment was computed for."""
    assignment_timestamp: int64 = field(tag=0, default=0)
    """Time the computation finished, in ms since 1970 (KIP-1263); 0: unknown."""


class StreamsGroupTargetAssignmentMemberKey(Payload, versions="0"):
    """Key of a member's target assignment."""

    group_id: GroupId = ""
    """Id of the group."""
    member_id: string = ""
    """Id of the member."""


class TargetTaskIds(Struct):
    """Tasks of one subtopology: one per partition."""

    subtopology_id: string = ""
    """Id of the subtopology."""
    partitions: list[PartitionIndex] = field(factory=list)


class StreamsGroupTargetAssignmentMemberValue(Payload, versions="0", flexible="0+"):
    """Target assignment of a member: its tasks once the group is reconciled."""

    active_tasks: list[TargetTaskIds] = field(factory=list)
    """Tasks to process."""
    standby_tasks: list[TargetTaskIds] = field(factory=list)
    """Tasks to replicate the state of."""
    warmup_tasks: list[TargetTaskIds] = field(factory=list)
    """Tasks to restore the state of, before they become active."""


class StreamsGroupCurrentMemberAssignmentKey(Payload, versions="0"):
    """Key of a member's current assignment."""

    group_id: GroupId = ""
    """Id of the group."""
    member_id: string = ""
    """Id of the member."""


class TaskIds(Struct):
    """Tasks of one subtopology that a member has."""

    subtopology_id: string = ""
    """Id of the subtopology."""
    partitions: list[PartitionIndex] = field(factory=list)
    assignment_epochs: list[int32] | None = field(tag=0, factory=list)
    """Member epoch at which each of `partitions` was assigned, in the same order. The coordinator uses it to validate
    offset commits (KIP-1251). Null or empty: unknown, or not active tasks."""


class StreamsGroupCurrentMemberAssignmentValue(Payload, versions="0", flexible="0+"):
    """Current tasks of a member, and the progress of its reconciliation."""

    member_epoch: int32 = 0
    """Epoch that the member sends with its next heartbeat."""
    previous_member_epoch: int32 = 0
    """Previous epoch, which the member may still send if it didn't receive the last response."""
    state: int8 = 0
    """1: STABLE; 2: UNREVOKED_TASKS, the member has tasks to revoke; 3: UNRELEASED_TASKS, it waits for tasks of other
    members."""
    active_tasks: list[TaskIds] = field(factory=list)
    """Tasks the member processes."""
    standby_tasks: list[TaskIds] = field(factory=list)
    """Tasks whose state the member replicates."""
    warmup_tasks: list[TaskIds] = field(factory=list)
    """Tasks whose state the member restores, before they become active."""
    active_tasks_pending_revocation: list[TaskIds] = field(factory=list)
    """Active tasks that the member has to revoke."""
    standby_tasks_pending_revocation: list[TaskIds] = field(factory=list)
    """Standby tasks that the member has to revoke."""
    warmup_tasks_pending_revocation: list[TaskIds] = field(factory=list)
    """Warm-up tasks that the member has to revoke."""


class TaskId(Struct):
    """A task."""

    topic_group_id: int32 = 0
    """Number of the subtopology."""
    partition: PartitionIndex = 0


class PartitionToOffsetSum(Struct):
    """How far the member has restored one task."""

    partition: PartitionIndex = 0
    offset_sum: int64 = 0
    """Sum of the changelog offsets of the task; -2: an active task that is running; -3: unknown."""


class TaskOffsetSum(Struct):
    """How far the member has restored a task; in versions 7-9, the tasks of a subtopology."""

    topic_group_id: int32 = 0
    """Number of the subtopology."""
    partition: PartitionIndex = field("10+", default=0)
    offset_sum: int64 = field("10+", default=0)
    """Sum of the changelog offsets of the task; -2: an active task that is running; -3: unknown."""
    named_topology: string | None = field("10+", default="")
    """Name of the topology; null: none."""
    partition_to_offset_sum: list[PartitionToOffsetSum] = field("7-9", factory=list)
    """Tasks of the subtopology."""


class ClientTag(Struct):
    """A client tag (KIP-708)."""

    key: bytes = b""
    """Name of the tag, as UTF-8."""
    value: bytes = b""
    """Value of the tag, as UTF-8."""


class SubscriptionInfoData(Payload, versions="1-11"):
    """User data in the subscription of a Streams member of a classic group: its tasks and its address."""

    version: int32 = 0
    """Version of this data."""
    latest_supported_version: int32 = field("3+", default=-1)
    """Highest version that the member can read; -1: not given."""
    process_id: uuid = ZERO_UUID
    """Id of the Streams instance, the same for all of its threads."""
    prev_tasks: list[TaskId] = field("1-6", factory=list)
    """Active tasks that the member had."""
    standby_tasks: list[TaskId] = field("1-6", factory=list)
    """Standby tasks that the member had."""
    user_end_point: bytes = field("2+", default=b"")
    """`application.server` as UTF-8, such as `host:port`; empty: none."""
    task_offset_sums: list[TaskOffsetSum] = field("7+", factory=list)
    """Tasks whose state the member has."""
    unique_field: int8 = field("8+", default=0)
    """Toggled to make the subscription differ from the previous one, so the coordinator rebalances."""
    error_code: int32 = field("9+", default=0)
    """0: none; 1: INCOMPLETE_SOURCE_TOPIC_METADATA; 2: VERSION_PROBING; 3: ASSIGNMENT_ERROR; 4: SHUTDOWN_REQUESTED,
    all members shut down."""
    client_tags: list[ClientTag] = field("11+", factory=list)
    """Tags for the rack-aware assignment of standby tasks (KIP-708)."""
