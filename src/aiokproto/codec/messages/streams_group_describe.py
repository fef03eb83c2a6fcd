"""StreamsGroupDescribe (ApiKey 89): state, topology and members of Streams groups (KIP-1071)."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, int64, string, uint16


class KeyValue(Struct):
    key: string
    value: string


class TopicInfo(Struct):
    name: string
    partitions: int32
    replication_factor: int16
    topic_configs: list[KeyValue]


class Subtopology(Struct):
    subtopology_id: string
    source_topics: list[string]
    repartition_sink_topics: list[string]
    state_changelog_topics: list[TopicInfo]
    repartition_source_topics: list[TopicInfo]


class Topology(Struct):
    epoch: int32
    subtopologies: list[Subtopology] | None = field(default=None)


class Endpoint(Struct):
    host: string
    port: uint16


class TaskOffset(Struct):
    subtopology_id: string
    partition: int32
    offset: int64


class TaskIds(Struct):
    subtopology_id: string
    partitions: list[int32]


class Assignment(Struct):
    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]


class Member(Struct):
    member_id: string
    member_epoch: int32
    instance_id: string | None = field(default=None)
    rack_id: string | None = field(default=None)
    client_id: string
    client_host: string
    topology_epoch: int32
    process_id: string
    user_endpoint: Endpoint | None = field(default=None)
    client_tags: list[KeyValue]
    task_offsets: list[TaskOffset]
    task_end_offsets: list[TaskOffset]
    assignment: Assignment
    target_assignment: Assignment
    is_classic: bool


class TopologyDescriptionNode(Struct):
    name: string
    node_type: int8
    source_topics: list[string]
    sink_topic: string | None = field(default=None)
    stores: list[string]
    successors: list[string]


class TopologyDescriptionSubtopology(Struct):
    subtopology_id: string
    nodes: list[TopologyDescriptionNode]


class TopologyDescriptionGlobalStore(Struct):
    source: TopologyDescriptionNode
    processor: TopologyDescriptionNode


class TopologyDescription(Struct):
    subtopologies: list[TopologyDescriptionSubtopology]
    global_stores: list[TopologyDescriptionGlobalStore]


class DescribedGroup(Struct):
    error_code: int16
    error_message: string | None = field(default=None)
    group_id: string
    group_state: string
    group_epoch: int32
    assignment_epoch: int32
    topology: Topology | None = field(default=None)
    members: list[Member]
    authorized_operations: int32 = field(default=-2147483648)
    topology_description: TopologyDescription | None = field("1+", default=None)
    topology_description_status: int8 = field("1+", default=0)
    assignor_name: string | None = field("1+", default=None, ignorable=True)


class StreamsGroupDescribeResponse(Response, key=89, versions="0-1", flexible="0+"):
    throttle_time_ms: int32
    groups: list[DescribedGroup]


class StreamsGroupDescribeRequest(
    Request[StreamsGroupDescribeResponse], key=89, versions="0-1", flexible="0+", route=Route.GROUP
):
    group_ids: list[string]
    include_authorized_operations: bool
    include_topology_description: bool = field("1+", default=False)
