"""StreamsGroupHeartbeat (ApiKey 88): join, stay in and leave a Streams group (KIP-1071)."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, int64, string, uint16


class Status(Struct):
    status_code: int8
    status_detail: string


class TaskIds(Struct):
    subtopology_id: string
    partitions: list[int32]


class Endpoint(Struct):
    host: string
    port: uint16


class TopicPartition(Struct):
    topic: string
    partitions: list[int32]


class EndpointToPartitions(Struct):
    user_endpoint: Endpoint
    active_partitions: list[TopicPartition]
    standby_partitions: list[TopicPartition]


class StreamsGroupHeartbeatResponse(Response, key=88, versions="0-1", flexible="0+"):
    throttle_time_ms: int32
    error_code: int16
    error_message: string | None = field(default=None)
    member_id: string
    member_epoch: int32
    heartbeat_interval_ms: int32
    acceptable_recovery_lag_legacy: int32 = field("0", default=0)
    task_offset_interval_ms: int32
    acceptable_recovery_lag: int64 = field("1+", default=-1, ignorable=True)
    status: list[Status] | None
    active_tasks: list[TaskIds] | None = field(default=None)
    standby_tasks: list[TaskIds] | None = field(default=None)
    warmup_tasks: list[TaskIds] | None = field(default=None)
    topology_description_required: bool = field("1+", default=False)
    endpoint_information_epoch: int32
    partitions_by_user_endpoint: list[EndpointToPartitions] | None = field(default=None)


class KeyValue(Struct):
    key: string
    value: string


class TopicInfo(Struct):
    name: string
    partitions: int32
    replication_factor: int16
    topic_configs: list[KeyValue]


class CopartitionGroup(Struct):
    source_topics: list[int16]
    source_topic_regex: list[int16]
    repartition_source_topics: list[int16]


class Subtopology(Struct):
    subtopology_id: string
    source_topics: list[string]
    source_topic_regex: list[string]
    state_changelog_topics: list[TopicInfo]
    repartition_sink_topics: list[string]
    repartition_source_topics: list[TopicInfo]
    copartition_groups: list[CopartitionGroup]


class Topology(Struct):
    epoch: int32
    subtopologies: list[Subtopology]


class TaskOffset(Struct):
    subtopology_id: string
    partition: int32
    offset: int64


class StreamsGroupHeartbeatRequest(
    Request[StreamsGroupHeartbeatResponse], key=88, versions="0-1", flexible="0+", route=Route.GROUP
):
    group_id: string
    member_id: string
    member_epoch: int32
    endpoint_information_epoch: int32
    instance_id: string | None = field(default=None)
    rack_id: string | None = field(default=None)
    rebalance_timeout_ms: int32 = field(default=-1)
    topology: Topology | None = field(default=None)
    active_tasks: list[TaskIds] | None = field(default=None)
    standby_tasks: list[TaskIds] | None = field(default=None)
    warmup_tasks: list[TaskIds] | None = field(default=None)
    process_id: string | None = field(default=None)
    user_endpoint: Endpoint | None = field(default=None)
    client_tags: list[KeyValue] | None = field(default=None)
    task_offsets: list[TaskOffset] | None = field(default=None)
    task_end_offsets: list[TaskOffset] | None = field(default=None)
    shutdown_application: bool = field(default=False)
