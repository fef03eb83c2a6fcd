"""StreamsGroupDescribe (ApiKey 89): describe Streams groups: state, topology, members and tasks (KIP-1071)."""

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


class KeyValue(Struct):
    """An option of a topic, or a client tag."""

    key: string = ""
    """Name of the configuration or client tag."""
    value: string = ""
    """Its value."""


class TopicInfo(Struct):
    """An internal topic of the topology."""

    name: TopicName = ""
    partitions: int32 = 0
    """Number of partitions; 0: not fixed by the topology."""
    replication_factor: int16 = 0
    """Replicas per partition; 0: the broker's default."""
    topic_configs: list[KeyValue] = field(factory=list)


class Subtopology(Struct):
    """A connected part of the topology; a task is a subtopology and a partition."""

    subtopology_id: string = ""
    """Id of the subtopology, unique in the topology."""
    source_topics: list[TopicName] = field(factory=list, mentioned=True)
    """Topics the subtopology reads, with regular expressions resolved."""
    repartition_sink_topics: list[TopicName] = field(factory=list, mentioned=True)
    """Repartition topics the subtopology writes to."""
    state_changelog_topics: list[TopicInfo] = field(factory=list)
    """Changelog topics of its state stores."""
    repartition_source_topics: list[TopicInfo] = field(factory=list)
    """Repartition topics the subtopology reads."""


class Topology(Struct):
    """What the group coordinator knows about the application's topology."""

    epoch: int32 = 0
    """Epoch of the topology, which grows when the topology changes."""
    subtopologies: list[Subtopology] | None = None
    """Subtopologies with their numbers of partitions; null: not ready, as source topics are missing or have wrong
    numbers of partitions."""


class Endpoint(Struct):
    """Address of a Streams instance for Interactive Queries (`application.server`)."""

    host: string = ""
    """Host name or address to connect to."""
    port: uint16 = 0
    """TCP port."""


class TaskOffset(Struct):
    """An offset of one task."""

    subtopology_id: string = ""
    """Id of the subtopology, unique in the topology."""
    partition: PartitionIndex = 0
    offset: int64 = 0
    """Sum of the changelog offsets of the task."""


class TaskIds(Struct):
    """Tasks of one subtopology: one per partition."""

    subtopology_id: string = ""
    """Id of the subtopology, unique in the topology."""
    partitions: list[PartitionIndex] = field(factory=list)
    """Input partitions, each of which is a task."""


class Assignment(Struct):
    """Tasks of a member."""

    active_tasks: list[TaskIds] = field(factory=list)
    """Tasks the member processes."""
    standby_tasks: list[TaskIds] = field(factory=list)
    """Tasks whose state the member replicates, to take over after a failure."""
    warmup_tasks: list[TaskIds] = field(factory=list)
    """Tasks whose state the member restores, to become active afterwards."""


class Member(Struct):
    """A member of the group."""

    member_id: string = ""
    """Id of the member."""
    member_epoch: int32 = 0
    """Group epoch of the member's current assignment."""
    instance_id: string | None = None
    """`group.instance.id` of a static member; null: dynamic."""
    rack_id: string | None = None
    """Rack of the member (`client.rack`); null: unknown."""
    client_id: string = ""
    """`client.id` of the member."""
    client_host: string = ""
    """Address the member connected from."""
    topology_epoch: int32 = 0
    """Epoch of the topology the member runs."""
    process_id: string = ""
    """Id of the Streams instance; its threads are members with the same id."""
    user_endpoint: Endpoint | None = None
    """Endpoint of the instance; null: none configured."""
    client_tags: list[KeyValue] = field(factory=list)
    """Tags for the rack-aware assignment of standby tasks."""
    task_offsets: list[TaskOffset] = field(factory=list)
    """Progress of restoring the member's tasks."""
    task_end_offsets: list[TaskOffset] = field(factory=list)
    """Ends of the changelogs, to compare with `task_offsets`."""
    assignment: Assignment = field(factory=Assignment)
    """Tasks the member currently has."""
    target_assignment: Assignment = field(factory=Assignment)
    """Tasks the member is assigned; it equals `assignment` once the member has reconciled."""
    is_classic: bool = False
    """True: a member of the classic protocol that has not been upgraded yet."""


class TopologyDescriptionNode(Struct):
    """A node of the processing graph."""

    name: string = ""
    """Name of the node, such as "KSTREAM-SOURCE-0000000000"."""
    node_type: int8 = 0
    """1: source; 2: processor; 3: sink."""
    source_topics: list[TopicName] = field(factory=list, mentioned=True)
    """Topics a source reads; empty: other kinds of node, or chosen at run time."""
    sink_topic: TopicName | None = field(default=None, mentioned=True)
    """Topic a sink writes to; null: other kinds of node, or chosen at run time."""
    stores: list[string] = field(factory=list)
    """State stores a processor uses."""
    successors: list[string] = field(factory=list)
    """Names of the nodes that receive this node's output."""


class TopologyDescriptionSubtopology(Struct):
    """A connected part of the processing graph."""

    subtopology_id: string = ""
    """Id of the subtopology, unique in the topology."""
    nodes: list[TopologyDescriptionNode] = field(factory=list)


class TopologyDescriptionGlobalStore(Struct):
    """A state store that every instance reads completely."""

    source: TopologyDescriptionNode = field(factory=TopologyDescriptionNode)
    """Node that reads the topic of the store."""
    processor: TopologyDescriptionNode = field(factory=TopologyDescriptionNode)
    """Node that fills the store."""


class TopologyDescription(Struct):
    """The topology as the application describes it (KIP-1331)."""

    subtopologies: list[TopologyDescriptionSubtopology] = field(factory=list)
    global_stores: list[TopologyDescriptionGlobalStore] = field(factory=list)


class DescribedGroup(Struct):
    """A group: its state, topology and members."""

    error_code: int16 = 0
    error_message: string | None = None
    group_id: GroupId = ""
    """Id of the group."""
    group_state: string = ""
    """State: "Empty", "NotReady", "Assigning", "Reconciling", "Stable" or "Dead"; empty: an error."""
    group_epoch: int32 = 0
    """Epoch of the members, topology and topics, which grows with each change."""
    assignment_epoch: int32 = 0
    """Group epoch that the target assignment was computed for; lower than `group_epoch` while a new one is pending."""
    topology: Topology | None = None
    """Topology of the group; null: an error."""
    members: list[Member] = field(factory=list)
    authorized_operations: int32 = -2147483648
    """Bit n is set if the caller is allowed AclOperation n on the group; -2147483648: not requested."""
    topology_description: TopologyDescription | None = field("1+", default=None)
    """Full description; null unless `topology_description_status` is 3."""
    topology_description_status: int8 = field("1+", default=0)
    """0: not requested; 1: none stored; 2: the broker could not read it (see its log); 3: available."""
    assignor_name: string | None = field("1+", default=None, ignorable=True)
    """Task assignor for the next assignment; another assignor may have computed the current one. null: an error."""


class StreamsGroupDescribeResponse(Response, key=89, versions="0-1", flexible="0+"):
    """One description per group. Errors: see `StreamsGroupDescribeRequest`."""

    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup] = field(factory=list)


class StreamsGroupDescribeRequest(
    Request[StreamsGroupDescribeResponse], key=89, versions="0-1", flexible="0+", route=Route.GROUP
):
    """Describe Streams groups.

    Sent by admin tools to the group coordinator of each group.

    Errors: per group: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, NOT_COORDINATOR, INVALID_GROUP_ID,
    GROUP_ID_NOT_FOUND, GROUP_AUTHORIZATION_FAILED, TOPIC_AUTHORIZATION_FAILED, INVALID_REQUEST.
    """

    group_ids: list[GroupId] = field(factory=list)
    """Groups to describe."""
    include_authorized_operations: bool = False
    """True: return `authorized_operations`."""
    include_topology_description: bool = field("1+", default=False)
    """True: return `topology_description` (KIP-1331)."""
