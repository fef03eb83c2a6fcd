"""StreamsGroupHeartbeat (ApiKey 88): join, stay in and leave a Streams group (KIP-1071)."""

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
    int8,
    int16,
    int32,
    int64,
    string,
    uint16,
)


class Status(Struct):
    """A condition that delays or prevents the assignment of tasks."""

    status_code: int8 = 0
    """0: STALE_TOPOLOGY, the member's topology epoch is below the group's; 1: MISSING_SOURCE_TOPICS; 2:
    INCORRECTLY_PARTITIONED_TOPICS; 3: MISSING_INTERNAL_TOPICS; 4: SHUTDOWN_APPLICATION, a member requested the end of
    the application; 5: ASSIGNMENT_DELAYED; 6: MISSING_CLIENT_TAGS (version 1+)."""
    status_detail: string = ""
    """Explanation for people, such as the names of missing topics."""


class TaskIds(Struct):
    """Tasks of one subtopology: one per partition."""

    subtopology_id: string = ""
    """Id of the subtopology, unique in the topology."""
    partitions: list[PartitionIndex] = field(factory=list)
    """Input partitions, each of which is a task."""


class Endpoint(Struct):
    """Address of a Streams instance for Interactive Queries (`application.server`)."""

    host: string = ""
    """Host name or address to connect to."""
    port: uint16 = 0
    """TCP port."""


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class EndpointToPartitions(Struct):
    """Where a member's partitions can be queried.

    An instance with several threads has several entries; the caller merges them.
    """

    user_endpoint: Endpoint = field(factory=Endpoint)
    """Endpoint of the member's instance."""
    active_partitions: list[TopicPartition] = field(factory=list)
    """Source partitions of the member's active tasks."""
    standby_partitions: list[TopicPartition] = field(factory=list)
    """Source partitions of the member's standby and warm-up tasks."""


class StreamsGroupHeartbeatResponse(Response, key=88, versions="0-1", flexible="0+"):
    """Epoch of the member, its tasks if they have changed, and the state of the group.

    Errors: see `StreamsGroupHeartbeatRequest`.
    """

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    member_id: string = ""
    """Id of the member, as in the request."""
    member_epoch: int32 = 0
    """Epoch to send with the next heartbeat; -1 or -2: the member has left."""
    heartbeat_interval_ms: int32 = 0
    """Time until the next heartbeat, in ms."""
    acceptable_recovery_lag_legacy: int32 = field("0", default=0)
    """Replaced by `acceptable_recovery_lag` in version 1."""
    task_offset_interval_ms: int32 = 0
    """Time between two reports of `task_offsets`, in ms."""
    acceptable_recovery_lag: int64 = field("1+", default=-1, ignorable=True)
    """How many offsets a warm-up task can be behind and still become active; -1: the broker does not support this."""
    status: list[Status] | None = field(factory=list)
    """Conditions of the group; null or empty: none."""
    active_tasks: list[TaskIds] | None = None
    """Tasks to process; null: unchanged."""
    standby_tasks: list[TaskIds] | None = None
    """Tasks to replicate the state of; null: unchanged."""
    warmup_tasks: list[TaskIds] | None = None
    """Tasks to restore the state of; null: unchanged."""
    topology_description_required: bool = field("1+", default=False)
    """True: send a StreamsGroupTopologyDescriptionUpdate (KIP-1331)."""
    endpoint_information_epoch: int32 = 0
    """Epoch of `partitions_by_user_endpoint`, to send with the next heartbeat."""
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None
    """Where all members' partitions can be queried; null: unchanged since the epoch in the request."""


class KeyValue(Struct):
    """An option of a topic, or a client tag."""

    key: string = ""
    """Name of the configuration or client tag."""
    value: string = ""
    """Its value."""


class TopicInfo(Struct):
    """An internal topic that the group coordinator creates."""

    name: TopicName = ""
    partitions: int32 = 0
    """Number of partitions; 0: computed by the coordinator, as always for changelogs."""
    replication_factor: int16 = 0
    """Replicas per partition; 0: the broker's default."""
    topic_configs: list[KeyValue] = field(factory=list)


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


class Topology(Struct):
    """The parts of the application's topology that the assignment depends on."""

    epoch: int32 = 0
    """Epoch of the topology, set by the application; grows when the topology changes."""
    subtopologies: list[Subtopology] = field(factory=list)


class TaskOffset(Struct):
    """An offset of one task."""

    subtopology_id: string = ""
    """Id of the subtopology, unique in the topology."""
    partition: PartitionIndex = 0
    offset: int64 = 0
    """Sum of the changelog offsets of the task."""


class StreamsGroupHeartbeatRequest(
    Request[StreamsGroupHeartbeatResponse], key=88, versions="0-1", flexible="0+", route=Route.GROUP
):
    """Join a Streams group, stay in it, or leave it.

    Sent by Streams threads to the group coordinator, every `heartbeat_interval_ms` and when their tasks change. If
    heartbeats stop, the member is removed.

    Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, GROUP_AUTHORIZATION_FAILED,
    TOPIC_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED, GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED,
    UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, UNRELEASED_INSTANCE_ID, STREAMS_INVALID_TOPOLOGY,
    STREAMS_INVALID_TOPOLOGY_EPOCH, STREAMS_TOPOLOGY_FENCED, INVALID_REQUEST. Conditions that only delay the assignment
    are reported in `status`.
    """

    group_id: GroupId = ""
    """Group of the member (`application.id`)."""
    member_id: string = ""
    """UUID that the member generates and uses until it closes."""
    member_epoch: int32 = 0
    """Epoch of the previous response; 0: join; -1: leave; -2: leave temporarily (static member)."""
    endpoint_information_epoch: int32 = 0
    """Epoch of the `partitions_by_user_endpoint` the member has."""
    instance_id: string | None = None
    """`group.instance.id` of a static member; null: dynamic, or unchanged."""
    rack_id: string | None = None
    """Rack of the member (`client.rack`); null: unknown, or unchanged."""
    rebalance_timeout_ms: int32 = -1
    """How long the coordinator waits for the member to revoke tasks, in ms; -1: unchanged."""
    topology: Topology | None = None
    """Topology of the application, when joining; null otherwise."""
    active_tasks: list[TaskIds] | None = None
    """Active tasks the member has; null: unchanged."""
    standby_tasks: list[TaskIds] | None = None
    """Standby tasks the member has; null: unchanged."""
    warmup_tasks: list[TaskIds] | None = None
    """Warm-up tasks the member has; null: unchanged."""
    process_id: string | None = None
    """Id of the Streams instance, the same for all of its threads; null: unchanged."""
    user_endpoint: Endpoint | None = None
    """Endpoint of the instance; null: none, or unchanged."""
    client_tags: list[KeyValue] | None = None
    """Tags for the rack-aware assignment of standby tasks; null: unchanged."""
    task_offsets: list[TaskOffset] | None = None
    """Progress of restoring the member's tasks; null: unchanged."""
    task_end_offsets: list[TaskOffset] | None = None
    """Ends of the changelogs, to compare with `task_offsets`; null: unchanged."""
    shutdown_application: bool = False
    """True: request that all members of the group shut down."""
