"""CreateTopics (ApiKey 19): create topics, with partitions, replicas and configuration."""

from __future__ import annotations

from aiokproto.codec.config_names import holds_secret
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
    """A configuration of the created topic."""

    name: string = ""
    """Configuration name."""
    value: string | None = field(default="", secret=holds_secret)
    """Value of the configuration; null: hidden because it is sensitive."""
    read_only: bool = False
    """True: it cannot be changed at run time."""
    config_source: int8 = -1
    """Where the value comes from: 1 topic, 2 dynamic broker, 3 dynamic default of all brokers, 4 static broker file,
    5 default, 6 dynamic broker logger, 7 client metrics, 8 group; -1: not sent; 0: unknown."""
    is_sensitive: bool = False
    """True: a secret, whose value is not returned."""


class CreatableTopicResult(Struct):
    """The result of one topic."""

    name: TopicName = ""
    topic_id: TopicId = field("7+", default=ZERO_UUID, ignorable=True)
    error_code: int16 = 0
    error_message: string | None = field("1+", default="", ignorable=True)
    topic_config_error_code: int16 = field("5+", tag=0, default=0, ignorable=True)
    """TOPIC_AUTHORIZATION_FAILED: the caller cannot see the configuration; 0: none."""
    num_partitions: int32 = field("5+", default=-1, ignorable=True)
    """Number of partitions of the topic; -1: not visible to the caller, or an error."""
    replication_factor: int16 = field("5+", default=-1, ignorable=True)
    """Number of replicas of each partition; -1: not visible to the caller, or an error."""
    configs: list[CreatableTopicConfigs] | None = field("5+", factory=list, ignorable=True)


class CreateTopicsResponse(Response, key=19, versions="0-7", flexible="5+", client_throttles="3+"):
    """One result per topic. Errors: see `CreateTopicsRequest`."""

    throttle_time_ms: int32 = field("2+", default=0, ignorable=True)
    topics: list[CreatableTopicResult] = field(factory=list)


class CreatableReplicaAssignment(Struct):
    """The replicas of one partition."""

    partition_index: PartitionIndex = 0
    broker_ids: list[BrokerId] = field(factory=list)
    """Brokers that hold the partition, preferred leader first."""


class CreatableTopicConfig(Struct):
    """A configuration of the new topic."""

    name: string = ""
    """Configuration name."""
    value: string | None = field(default="", secret=holds_secret)
    """Value to set; null: invalid."""


class CreatableTopic(Struct):
    """A topic to create."""

    name: TopicName = ""
    num_partitions: int32 = 0
    """Number of partitions; -1: the broker's `num.partitions`, or as in `assignments`."""
    replication_factor: int16 = 0
    """Number of replicas; -1: the broker's `default.replication.factor`, or as in `assignments`."""
    assignments: list[CreatableReplicaAssignment] = field(factory=list)
    configs: list[CreatableTopicConfig] = field(factory=list)


class CreateTopicsRequest(Request[CreateTopicsResponse], key=19, versions="0-7", flexible="5+", route=Route.CONTROLLER):
    """Create topics.

    Sent by admin tools, and by brokers that create topics automatically, to the controller; brokers forward it.

    Errors: per topic: TOPIC_AUTHORIZATION_FAILED (CLUSTER_AUTHORIZATION_FAILED before Kafka 2.0),
    TOPIC_ALREADY_EXISTS, INVALID_TOPIC_EXCEPTION, INVALID_PARTITIONS, INVALID_REPLICATION_FACTOR,
    INVALID_REPLICA_ASSIGNMENT, INVALID_CONFIG, INVALID_REQUEST, POLICY_VIOLATION, THROTTLING_QUOTA_EXCEEDED,
    REQUEST_TIMED_OUT, NOT_CONTROLLER.
    """

    topics: list[CreatableTopic] = field(factory=list)
    timeout_ms: int32 = 60000
    """How long the receiver may take, in ms."""
    validate_only: bool = field("1+", default=False)
    """True: only check the request, without changing anything."""
