"""AlterPartition (ApiKey 56): a partition's leader proposes a new set of in-sync replicas."""

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
)
from aiokproto.codec.wire import ZERO_UUID


class AlterPartitionResponsePartitionData(Struct):
    """The state of one partition after the change."""

    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    leader_id: BrokerId = field(default=0, refused=-1)
    """Broker that leads the partition; -1: none."""
    leader_epoch: int32 = field(default=0, refused=-1)
    """Epoch of that leader."""
    isr: list[BrokerId] = field(factory=list)
    """Brokers that are in sync now."""
    leader_recovery_state: int8 = field("1+", default=0, ignorable=True)
    """0: the leader has recovered; 1: it is recovering from an unclean election (KIP-704)."""
    partition_epoch: int32 = 0
    """Version of the partition's state; grows with each change."""


class AlterPartitionResponseTopicData(Struct):
    """The partitions of one topic."""

    topic_name: TopicName = field("0-1", default="", ignorable=True)
    topic_id: TopicId = field("2+", default=ZERO_UUID, ignorable=True)
    partitions: list[AlterPartitionResponsePartitionData] = field(factory=list)


class AlterPartitionResponse(Response, key=56, versions="0-3", flexible="0+"):
    """The state of each partition after the change. Errors: see `AlterPartitionRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    topics: list[AlterPartitionResponseTopicData] = field(factory=list)


class BrokerState(Struct):
    """An in-sync replica and its epoch."""

    broker_id: BrokerId = 0
    """Node id of the broker."""
    broker_epoch: int64 = -1
    """Epoch of that broker's registration (KIP-903); -1: not checked."""


class AlterPartitionRequestPartitionData(Struct):
    """The state that the leader proposes for one partition."""

    partition_index: PartitionIndex = 0
    leader_epoch: int32 = 0
    """Epoch in which the sender leads the partition."""
    new_isr: list[BrokerId] = field("0-2", factory=list)
    """Proposed in-sync replicas."""
    new_isr_with_epochs: list[BrokerState] = field("3+", factory=list)
    leader_recovery_state: int8 = field("1+", default=0)
    """0: the leader has recovered; 1: it is recovering from an unclean election (KIP-704)."""
    partition_epoch: int32 = 0
    """Epoch of the state that the leader knows; the controller rejects the change if its own epoch is newer."""


class AlterPartitionRequestTopicData(Struct):
    """The partitions of one topic."""

    topic_name: TopicName = field("0-1", default="", ignorable=True)
    topic_id: TopicId = field("2+", default=ZERO_UUID, ignorable=True)
    partitions: list[AlterPartitionRequestPartitionData] = field(factory=list)


class AlterPartitionRequest(
    Request[AlterPartitionResponse], key=56, versions="0-3", flexible="0+", route=Route.CONTROLLER
):
    """Change the in-sync replicas or the leader recovery state of partitions (KIP-497).

    Sent by the leaders of partitions to the controller.

    Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, STALE_BROKER_EPOCH; per partition: UNKNOWN_TOPIC_ID
    (UNKNOWN_TOPIC_OR_PARTITION before version 2), UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH,
    INVALID_UPDATE_VERSION, INVALID_REQUEST, INELIGIBLE_REPLICA (OPERATION_NOT_ATTEMPTED before version 2),
    NEW_LEADER_ELECTED (FENCED_LEADER_EPOCH before version 2), NOT_CONTROLLER.
    """

    broker_id: BrokerId = 0
    """Broker that leads the partitions and sends the request."""
    broker_epoch: int64 = -1
    """Epoch of the broker's registration; -1: unknown."""
    topics: list[AlterPartitionRequestTopicData] = field(factory=list)
