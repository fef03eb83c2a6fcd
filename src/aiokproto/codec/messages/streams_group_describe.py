"""StreamsGroupDescribe (ApiKey 89): state, topology and members of Streams groups (KIP-1071)."""

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
    key: string = ""
    value: string = ""


class TopicInfo(Struct):
    name: TopicName = ""
    partitions: int32 = 0
    replication_factor: int16 = 0
    topic_configs: list[KeyValue] = field(factory=list)


class Subtopology(Struct):
    subtopology_id: string = ""
    source_topics: list[TopicName] = field(factory=list, mentioned=True)
    repartition_sink_topics: list[TopicName] = field(factory=list, mentioned=True)
    state_changelog_topics: list[TopicInfo] = field(factory=list)
    repartition_source_topics: list[TopicInfo] = field(factory=list)


class Topology(Struct):
    epoch: int32 = 0
    subtopologies: list[Subtopology] | None = None


class Endpoint(Struct):
    host: string = ""
    port: uint16 = 0


class TaskOffset(Struct):
    subtopology_id: string = ""
    partition: PartitionIndex = 0
    offset: int64 = 0


class TaskIds(Struct):
    subtopology_id: string = ""
    partitions: list[PartitionIndex] = field(factory=list)


class Assignment(Struct):
    active_tasks: list[TaskIds] = field(factory=list)
    standby_tasks: list[TaskIds] = field(factory=list)
    warmup_tasks: list[TaskIds] = field(factory=list)


class Member(Struct):
    member_id: string = ""
    member_epoch: int32 = 0
    instance_id: string | None = None
    rack_id: string | None = None
    client_id: string = ""
    client_host: string = ""
    topology_epoch: int32 = 0
    process_id: string = ""
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] = field(factory=list)
    task_offsets: list[TaskOffset] = field(factory=list)
    task_end_offsets: list[TaskOffset] = field(factory=list)
    assignment: Assignment = field(factory=Assignment)
    target_assignment: Assignment = field(factory=Assignment)
    is_classic: bool = False


class TopologyDescriptionNode(Struct):
    name: string = ""
    node_type: int8 = 0
    source_topics: list[TopicName] = field(factory=list, mentioned=True)
    sink_topic: TopicName | None = field(default=None, mentioned=True)
    stores: list[string] = field(factory=list)
    successors: list[string] = field(factory=list)


class TopologyDescriptionSubtopology(Struct):
    subtopology_id: string = ""
    nodes: list[TopologyDescriptionNode] = field(factory=list)


class TopologyDescriptionGlobalStore(Struct):
    source: TopologyDescriptionNode = field(factory=TopologyDescriptionNode)
    processor: TopologyDescriptionNode = field(factory=TopologyDescriptionNode)


class TopologyDescription(Struct):
    subtopologies: list[TopologyDescriptionSubtopology] = field(factory=list)
    global_stores: list[TopologyDescriptionGlobalStore] = field(factory=list)


class DescribedGroup(Struct):
    error_code: int16 = 0
    error_message: string | None = None
    group_id: GroupId = ""
    group_state: string = ""
    group_epoch: int32 = 0
    assignment_epoch: int32 = 0
    topology: Topology | None = None
    members: list[Member] = field(factory=list)
    authorized_operations: int32 = -2147483648
    topology_description: TopologyDescription | None = field("1+", default=None)
    topology_description_status: int8 = field("1+", default=0)
    assignor_name: string | None = field("1+", default=None, ignorable=True)


class StreamsGroupDescribeResponse(Response, key=89, versions="0-1", flexible="0+"):
    throttle_time_ms: int32 = 0
    groups: list[DescribedGroup] = field(factory=list)


class StreamsGroupDescribeRequest(
    Request[StreamsGroupDescribeResponse], key=89, versions="0-1", flexible="0+", route=Route.GROUP
):
    group_ids: list[GroupId] = field(factory=list)
    include_authorized_operations: bool = False
    include_topology_description: bool = field("1+", default=False)
