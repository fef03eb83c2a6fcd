"""CreateTopics (ApiKey 19): make topics, with partitions, replicas and configuration."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string, uuid
from aiokproto.codec.wire import ZERO_UUID


class CreatableTopicConfigs(Struct):
    name: string
    value: string | None
    read_only: bool
    config_source: int8 = field(default=-1)
    is_sensitive: bool


class CreatableTopicResult(Struct):
    name: string
    topic_id: uuid = field("7+", default=ZERO_UUID, ignorable=True)
    error_code: int16
    error_message: string | None = field("1+", default="", ignorable=True)
    topic_config_error_code: int16 = field("5+", tag=0, default=0, ignorable=True)
    num_partitions: int32 = field("5+", default=-1, ignorable=True)
    replication_factor: int16 = field("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field("5+", factory=list, ignorable=True)


class CreateTopicsResponse(Response, key=19, versions="0-7", flexible="5+"):
    throttle_time_ms: int32 = field("2+", default=0, ignorable=True)
    topics: list[CreatableTopicResult]


class CreatableReplicaAssignment(Struct):
    partition_index: int32
    broker_ids: list[int32]


class CreatableTopicConfig(Struct):
    name: string
    value: string | None


class CreatableTopic(Struct):
    name: string
    num_partitions: int32
    replication_factor: int16
    assignments: list[CreatableReplicaAssignment]
    configs: list[CreatableTopicConfig]


class CreateTopicsRequest(Request[CreateTopicsResponse], key=19, versions="0-7", flexible="5+", route=Route.CONTROLLER):
    topics: list[CreatableTopic]
    timeout_ms: int32 = field(default=60000)
    validate_only: bool = field("1+", default=False)
