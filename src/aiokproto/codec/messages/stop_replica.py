"""StopReplica (ApiKey 5): the ZooKeeper controller stops replicas on a broker, and deletes them if needed."""

from __future__ import annotations

from aiokproto.codec.schema import (
    BrokerId,
    PartitionIndex,
    Request,
    Response,
    Route,
    Struct,
    TopicName,
    field,
    int16,
    int32,
    int64,
)


class StopReplicaPartitionError(Struct):
    """The result of one partition."""

    topic_name: TopicName = ""
    partition_index: PartitionIndex = 0
    error_code: int16 = 0


class StopReplicaResponse(Response, key=5, versions="0-4", flexible="2+"):
    """One result per partition. Errors: see `StopReplicaRequest`."""

    error_code: int16 = 0
    partition_errors: list[StopReplicaPartitionError] = field(factory=list)


class StopReplicaPartitionV0(Struct):
    """A partition, in version 0."""

    topic_name: TopicName = ""
    partition_index: PartitionIndex = 0


class StopReplicaTopicV1(Struct):
    """A topic, in versions 1-2."""

    name: TopicName = ""
    partition_indexes: list[PartitionIndex] = field(factory=list)


class StopReplicaPartitionState(Struct):
    """A replica to stop."""

    partition_index: PartitionIndex = 0
    leader_epoch: int32 = -1
    """Leader epoch of the decision; FENCED_LEADER_EPOCH if it's lower than the broker's. -1: not checked; -2: the topic
    is being deleted, so not checked either."""
    delete_partition: bool = False
    """True: delete the replica's log as well."""


class StopReplicaTopicState(Struct):
    """Partitions of one topic."""

    topic_name: TopicName = ""
    partition_states: list[StopReplicaPartitionState] = field(factory=list)


class StopReplicaRequest(Request[StopReplicaResponse], key=5, versions="0-4", flexible="2+", route=Route.BROKER):
    """Stop replicas.

    Sent by the ZooKeeper controller (during a migration, the KRaft controller) to the broker that holds them. Removed
    in Kafka 4.0.

    Errors: STALE_CONTROLLER_EPOCH, STALE_BROKER_EPOCH, CLUSTER_AUTHORIZATION_FAILED; per partition:
    FENCED_LEADER_EPOCH, KAFKA_STORAGE_ERROR, UNKNOWN_SERVER_ERROR.
    """

    controller_id: BrokerId = 0
    """Node id of the controller."""
    is_kraft_controller: bool = field("4+", default=False)
    """True: a KRaft controller sends this, during a migration (KIP-866)."""
    controller_epoch: int32 = 0
    """Epoch of the controller; STALE_CONTROLLER_EPOCH if the broker knows a newer one."""
    broker_epoch: int64 = field("1+", default=-1, ignorable=True)
    """Epoch of the broker's registration; STALE_BROKER_EPOCH if it's older. -1: not checked."""
    delete_partitions: bool = field("0-2", default=False)
    """True: delete the logs of all partitions in the request (versions 0-2)."""
    ungrouped_partitions: list[StopReplicaPartitionV0] = field("0", factory=list)
    """Partitions to stop, in version 0."""
    topics: list[StopReplicaTopicV1] = field("1-2", factory=list)
    """Partitions to stop, in versions 1-2."""
    topic_states: list[StopReplicaTopicState] = field("3+", factory=list)
    """Partitions to stop, since version 3."""
