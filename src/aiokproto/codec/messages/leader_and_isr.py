"""LeaderAndIsr (ApiKey 4): the ZooKeeper controller sets which replicas a broker leads or follows."""

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


class LeaderAndIsrPartitionError(Struct):
    """The result of one partition."""

    topic_name: TopicName = field("0-4", default="", ignorable=True)
    partition_index: PartitionIndex = 0
    error_code: int16 = 0


class LeaderAndIsrTopicError(Struct):
    """Results of one topic."""

    topic_id: TopicId = ZERO_UUID
    partition_errors: list[LeaderAndIsrPartitionError] = field(factory=list)


class LeaderAndIsrResponse(Response, key=4, versions="0-7", flexible="4+"):
    """One result per partition. Errors: see `LeaderAndIsrRequest`."""

    error_code: int16 = 0
    partition_errors: list[LeaderAndIsrPartitionError] = field("0-4", factory=list)
    """Results by partition, up to version 4."""
    topics: list[LeaderAndIsrTopicError] = field("5+", factory=list)
    """Results by topic, since version 5."""


class LeaderAndIsrPartitionState(Struct):
    """State of one partition that the broker leads or follows."""

    topic_name: TopicName = field("0-1", default="", ignorable=True)
    partition_index: PartitionIndex = 0
    controller_epoch: int32 = 0
    """Epoch of the controller that made this decision."""
    leader: BrokerId = 0
    """Broker that leads the partition; -1: none; -2: the topic is being deleted."""
    leader_epoch: int32 = 0
    """Leader epoch; ignored if it isn't newer than the broker's."""
    isr: list[BrokerId] = field(factory=list)
    """In-sync replicas."""
    partition_epoch: int32 = 0
    """Version of the partition's state; `zkVersion` under ZooKeeper."""
    replicas: list[BrokerId] = field(factory=list)
    """All replicas, the preferred leader first."""
    adding_replicas: list[BrokerId] = field("3+", factory=list, ignorable=True)
    """Replicas that a reassignment adds."""
    removing_replicas: list[BrokerId] = field("3+", factory=list, ignorable=True)
    """Replicas that a reassignment removes."""
    is_new: bool = field("1+", default=False, ignorable=True)
    """True: the replica is new, so the broker creates its log even if a log directory is offline."""
    leader_recovery_state: int8 = field("6+", default=0)
    """0: recovered; 1: recovering from an unclean election."""


class LeaderAndIsrTopicState(Struct):
    """Partitions of one topic."""

    topic_name: TopicName = ""
    topic_id: TopicId = field("5+", default=ZERO_UUID, ignorable=True)
    partition_states: list[LeaderAndIsrPartitionState] = field(factory=list)


class LeaderAndIsrLiveLeader(Struct):
    """Address of a leader in the request."""

    broker_id: BrokerId = 0
    """Id of the broker."""
    host_name: string = ""
    """Host name or address to connect to."""
    port: int32 = 0
    """TCP port."""


class LeaderAndIsrRequest(Request[LeaderAndIsrResponse], key=4, versions="0-7", flexible="4+", route=Route.BROKER):
    """Set the leader and in-sync replicas of partitions.

    Sent by the ZooKeeper controller (during a migration, the KRaft controller) to each broker that has a replica.
    Removed in Kafka 4.0.

    Errors: STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH, CLUSTER_AUTHORIZATION_FAILED; per partition:
    STALE_CONTROLLER_EPOCH, INCONSISTENT_TOPIC_ID, KAFKA_STORAGE_ERROR, UNKNOWN_SERVER_ERROR.
    """

    controller_id: BrokerId = 0
    """Node id of the controller."""
    is_kraft_controller: bool = field("7+", default=False)
    """True: a KRaft controller sends this, during a migration (KIP-866)."""
    controller_epoch: int32 = 0
    """Epoch of the controller; STALE_CONTROLLER_EPOCH if the broker knows a newer one."""
    broker_epoch: int64 = field("2+", default=-1, ignorable=True)
    """Epoch of the broker's registration; STALE_BROKER_EPOCH if it's older. -1: not checked."""
    type: int8 = field("5+", default=0)
    """0: unknown; 1: incremental; 2: full, so replicas that aren't listed are stray (KIP-516)."""
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = field("0-1", factory=list)
    """States by partition, up to version 1."""
    topic_states: list[LeaderAndIsrTopicState] = field("2+", factory=list)
    """States by topic, since version 2."""
    live_leaders: list[LeaderAndIsrLiveLeader] = field(factory=list)
    """Addresses of the leaders named in the request."""
