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
    status_code: int8 = 0
    status_detail: string = ""


class TaskIds(Struct):
    subtopology_id: string = ""
    partitions: list[PartitionIndex] = field(factory=list)


class Endpoint(Struct):
    host: string = ""
    port: uint16 = 0


class TopicPartition(Struct):
    topic: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint = field(factory=Endpoint)
    active_partitions: list[TopicPartition] = field(factory=list)
    standby_partitions: list[TopicPartition] = field(factory=list)


class StreamsGroupHeartbeatResponse(Response, key=88, versions="0-1", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    member_id: string = ""
    member_epoch: int32 = 0
    heartbeat_interval_ms: int32 = 0
    acceptable_recovery_lag_legacy: int32 = field("0", default=0)
    task_offset_interval_ms: int32 = 0
    acceptable_recovery_lag: int64 = field("1+", default=-1, ignorable=True)
    status: list[Status] | None = field(factory=list)
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    topology_description_required: bool = field("1+", default=False)
    endpoint_information_epoch: int32 = 0
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = None


class KeyValue(Struct):
    key: string = ""
    value: string = ""


class TopicInfo(Struct):
    name: TopicName = ""
    partitions: int32 = 0
    replication_factor: int16 = 0
    topic_configs: list[KeyValue] = field(factory=list)


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


class Topology(Struct):
    epoch: int32 = 0
    subtopologies: list[Subtopology] = field(factory=list)


class TaskOffset(Struct):
    subtopology_id: string = ""
    partition: PartitionIndex = 0
    offset: int64 = 0


class StreamsGroupHeartbeatRequest(
    Request[StreamsGroupHeartbeatResponse], key=88, versions="0-1", flexible="0+", route=Route.GROUP
):
    group_id: GroupId = ""
    member_id: string = ""
    member_epoch: int32 = 0
    endpoint_information_epoch: int32 = 0
    instance_id: string | None = None
    rack_id: string | None = None
    rebalance_timeout_ms: int32 = -1
    topology: Topology | None = None
    active_tasks: list[TaskIds] | None = None
    standby_tasks: list[TaskIds] | None = None
    warmup_tasks: list[TaskIds] | None = None
    process_id: string | None = None
    user_endpoint: Endpoint | None = None
    client_tags: list[KeyValue] | None = None
    task_offsets: list[TaskOffset] | None = None
    task_end_offsets: list[TaskOffset] | None = None
    shutdown_application: bool = False
