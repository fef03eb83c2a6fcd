"""CreateTopics (ApiKey 19): make topics, with partitions, replicas and configuration."""

from __future__ import annotations

from aiokproto.codec.schema import (
    BrokerId,
    PartitionIndex,
    Request,
    Response,
    Route,
    Struct,
    TopicId,
    TopicName,
    field,
    int8,
    int16,
    int32,
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class CreatableTopicConfigs(Struct):
    name: string = ""
    value: string | None = ""
    read_only: bool = False
    config_source: int8 = -1
    is_sensitive: bool = False


class CreatableTopicResult(Struct):
    name: TopicName = ""
    topic_id: TopicId = field("7+", default=ZERO_UUID, ignorable=True)
    error_code: int16 = 0
    error_message: string | None = field("1+", default="", ignorable=True)
    topic_config_error_code: int16 = field("5+", tag=0, default=0, ignorable=True)
    num_partitions: int32 = field("5+", default=-1, ignorable=True)
    replication_factor: int16 = field("5+", default=-1, ignorable=True)
    configs: list[CreatableTopicConfigs] | None = field("5+", factory=list, ignorable=True)


class CreateTopicsResponse(Response, key=19, versions="0-7", flexible="5+", client_throttles="3+"):
    throttle_time_ms: int32 = field("2+", default=0, ignorable=True)
    topics: list[CreatableTopicResult] = field(factory=list)


class CreatableReplicaAssignment(Struct):
    partition_index: PartitionIndex = 0
    broker_ids: list[BrokerId] = field(factory=list)


class CreatableTopicConfig(Struct):
    name: string = ""
    value: string | None = ""


class CreatableTopic(Struct):
    name: TopicName = ""
    num_partitions: int32 = 0
    replication_factor: int16 = 0
    assignments: list[CreatableReplicaAssignment] = field(factory=list)
    configs: list[CreatableTopicConfig] = field(factory=list)


class CreateTopicsRequest(Request[CreateTopicsResponse], key=19, versions="0-7", flexible="5+", route=Route.CONTROLLER):
    topics: list[CreatableTopic] = field(factory=list)
    timeout_ms: int32 = 60000
    validate_only: bool = field("1+", default=False)
