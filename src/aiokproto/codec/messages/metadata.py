"""Metadata (ApiKey 3): read the brokers of the cluster, its topics, and the leader of each partition."""

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
    int16,
    int32,
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class MetadataResponseBroker(Struct):
    """A broker of the cluster."""

    node_id: BrokerId = 0
    """Id of the broker."""
    host: string = ""
    """Host name or address to connect to."""
    port: int32 = 0
    """TCP port."""
    rack: string | None = field("1+", default=None, ignorable=True)
    """Rack of the broker (`broker.rack`); null: none configured."""


class MetadataResponsePartition(Struct):
    """A partition: its leader and replicas."""

    error_code: int16 = 0
    partition_index: PartitionIndex = 0
    leader_id: BrokerId = field(default=0, refused=-1)
    """Broker that leads the partition; -1: none currently."""
    leader_epoch: int32 = field("7+", default=-1, ignorable=True)
    """Epoch of that leader. It orders metadata from different brokers: lower is older. -1: unknown."""
    replica_nodes: list[BrokerId] = field(factory=list)
    """All replicas, the preferred leader first."""
    isr_nodes: list[BrokerId] = field(factory=list)
    """Replicas in sync with the leader."""
    offline_replicas: list[BrokerId] = field("5+", factory=list, ignorable=True)
    """Replicas on brokers or log directories that are offline."""


class MetadataResponseTopic(Struct):
    """A topic, or the error that hides it."""

    error_code: int16 = 0
    name: TopicName | None = field(nullable="12+", default="")
    """Name of the topic; null: requested by an unknown id."""
    topic_id: TopicId = field("10+", default=ZERO_UUID, ignorable=True)
    """Id of the topic; zero: requested by an unknown name."""
    is_internal: bool = field("1+", default=False, ignorable=True)
    """True: an internal topic of Kafka, such as `__consumer_offsets`."""
    partitions: list[MetadataResponsePartition] = field(factory=list)
    topic_authorized_operations: int32 = field("8+", default=-2147483648)
    """Bit n is set if the caller is allowed AclOperation n on the topic; -2147483648: not requested."""


class MetadataResponse(Response, key=3, versions="0-13", flexible="9+", client_throttles="6+"):
    """The cluster as this broker knows it; another broker can be ahead or behind. Errors: see `MetadataRequest`."""

    throttle_time_ms: int32 = field("3+", default=0, ignorable=True)
    brokers: list[MetadataResponseBroker] = field(factory=list)
    """Brokers that are alive and reachable on the listener of the connection."""
    cluster_id: string | None = field("2+", default=None, ignorable=True)
    """Id of the cluster; null: unknown to the broker."""
    controller_id: BrokerId = field("1+", default=-1, ignorable=True)
    """Broker to send controller requests to; in KRaft, any live broker, which forwards them. -1: none known."""
    topics: list[MetadataResponseTopic] = field(factory=list)
    cluster_authorized_operations: int32 = field("8-10", default=-2147483648)
    """Bit n is set if the caller is allowed AclOperation n on the cluster; -2147483648: not requested."""
    error_code: int16 = field("13+", default=0, ignorable=True)


class MetadataRequestTopic(Struct):
    """A topic, by name or id."""

    topic_id: TopicId = field("10+", default=ZERO_UUID, ignorable=True)
    """Id of the topic; zero: requested by name. Ids work since version 12."""
    name: TopicName | None = field(nullable="10+", default="")
    """Name of the topic; null: requested by id."""


class MetadataRequest(Request[MetadataResponse], key=3, versions="0-13", flexible="9+", route=Route.ANY):
    """Read cluster metadata.

    Sent by clients to any broker.

    Errors: REBOOTSTRAP_REQUIRED (version 13+: resolve the bootstrap addresses again, KIP-1102); per topic:
    UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, INVALID_TOPIC_EXCEPTION, TOPIC_AUTHORIZATION_FAILED,
    LEADER_NOT_AVAILABLE (the topic is being created), INVALID_REPLICATION_FACTOR, INVALID_REQUEST; per partition:
    LEADER_NOT_AVAILABLE, LISTENER_NOT_FOUND (version 6+: the leader lacks the listener of the connection),
    REPLICA_NOT_AVAILABLE (version 0).
    """

    topics: list[MetadataRequestTopic] | None = field(nullable="1+", factory=list)
    """Topics to describe; null (version 1+): all; empty: none, or all in version 0."""
    allow_auto_topic_creation: bool = field("4+", default=True)
    """False: don't create missing topics, even if `auto.create.topics.enable` is set."""
    include_cluster_authorized_operations: bool = field("8-10", default=False)
    """True: return `cluster_authorized_operations` (KIP-430)."""
    include_topic_authorized_operations: bool = field("8+", default=False)
    """True: return `topic_authorized_operations` (KIP-430)."""
