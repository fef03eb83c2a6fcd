"""UpdateMetadata (ApiKey 6): the ZooKeeper controller sends a broker the state of the cluster."""

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
    int64,
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class UpdateMetadataResponse(Response, key=6, versions="0-8", flexible="6+"):
    """Whether the broker applied the metadata. Errors: see `UpdateMetadataRequest`."""

    error_code: int16 = 0


class UpdateMetadataPartitionState(Struct):
    """State of one partition."""

    topic_name: TopicName = field("0-4", default="", ignorable=True)
    partition_index: PartitionIndex = 0
    controller_epoch: int32 = 0
    """Epoch of the controller that made this decision."""
    leader: BrokerId = 0
    """Broker that leads the partition; -1: none; -2: the topic is being deleted."""
    leader_epoch: int32 = 0
    """Epoch of that leader."""
    isr: list[BrokerId] = field(factory=list)
    """In-sync replicas."""
    zk_version: int32 = 0
    """Version of the partition's state in ZooKeeper."""
    replicas: list[BrokerId] = field(factory=list)
    """All replicas, the preferred leader first."""
    offline_replicas: list[BrokerId] = field("4+", factory=list, ignorable=True)
    """Replicas on brokers or log directories that are offline."""


class UpdateMetadataTopicState(Struct):
    """Partitions of one topic."""

    topic_name: TopicName = ""
    topic_id: TopicId = field("7+", default=ZERO_UUID, ignorable=True)
    partition_states: list[UpdateMetadataPartitionState] = field(factory=list)


class UpdateMetadataEndpoint(Struct):
    """Address of a broker's listener."""

    port: int32 = 0
    """TCP port."""
    host: string = ""
    """Host name or address to connect to."""
    listener: string = field("3+", default="", ignorable=True)
    """Listener name; empty before version 3, where the security protocol is the name."""
    security_protocol: int16 = 0
    """0: PLAINTEXT; 1: SSL; 2: SASL_PLAINTEXT; 3: SASL_SSL."""


class UpdateMetadataBroker(Struct):
    """A live broker."""

    id: BrokerId = 0
    """Id of the broker."""
    v0_host: string = field("0", default="", ignorable=True)
    """Host name or address, in version 0."""
    v0_port: int32 = field("0", default=0, ignorable=True)
    """TCP port, in version 0."""
    endpoints: list[UpdateMetadataEndpoint] = field("1+", factory=list, ignorable=True)
    """Addresses by listener, since version 1."""
    rack: string | None = field("2+", default="", ignorable=True)
    """Rack of the broker (`broker.rack`); null: none configured."""


class UpdateMetadataRequest(Request[UpdateMetadataResponse], key=6, versions="0-8", flexible="6+", route=Route.BROKER):
    """Replace or update the metadata that a broker serves to clients.

    Sent by the ZooKeeper controller (during a migration, the KRaft controller) to every broker. Removed in Kafka 4.0.

    Errors: STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH, CLUSTER_AUTHORIZATION_FAILED, UNKNOWN_SERVER_ERROR.
    """

    controller_id: BrokerId = 0
    """Node id of the controller."""
    is_kraft_controller: bool = field("8+", default=False)
    """True: a KRaft controller sends this, during a migration (KIP-866)."""
    type: int8 = field("8+", tag=0, default=0)
    """0: unknown; 1: incremental; 2: full, which replaces all metadata (KIP-866)."""
    controller_epoch: int32 = 0
    """Epoch of the controller; STALE_CONTROLLER_EPOCH if the broker knows a newer one."""
    broker_epoch: int64 = field("5+", default=-1, ignorable=True)
    """Epoch of the broker's registration; STALE_BROKER_EPOCH if it's older. -1: not checked."""
    ungrouped_partition_states: list[UpdateMetadataPartitionState] = field("0-4", factory=list)
    """States by partition, up to version 4."""
    topic_states: list[UpdateMetadataTopicState] = field("5+", factory=list)
    """States by topic, since version 5."""
    live_brokers: list[UpdateMetadataBroker] = field(factory=list)
    """All brokers that are alive."""
