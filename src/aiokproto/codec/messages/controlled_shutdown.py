"""ControlledShutdown (ApiKey 7): a ZooKeeper-era broker asks to hand over its leaderships before it stops."""

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
    int64,
)


class RemainingPartition(Struct):
    """A partition that the broker still leads."""

    topic_name: TopicName = ""
    partition_index: PartitionIndex = 0


class ControlledShutdownResponse(Response, key=7, versions="0-3", flexible="3+"):
    """The partitions that could not be moved. Errors: see `ControlledShutdownRequest`."""

    error_code: int16 = 0
    remaining_partitions: list[RemainingPartition] = field(factory=list)


class ControlledShutdownRequest(
    Request[ControlledShutdownResponse],
    key=7,
    versions="0-3",
    flexible="3+",
    route=Route.CONTROLLER,
    header_client_id="1+",
):
    """Move the leaderships off a broker that will stop. In KRaft, BrokerHeartbeat does this.

    Sent by ZooKeeper brokers to the controller.

    Errors: NOT_CONTROLLER, STALE_BROKER_EPOCH, BROKER_NOT_AVAILABLE.
    """

    broker_id: BrokerId = 0
    """Broker that will stop."""
    broker_epoch: int64 = field("2+", default=-1, ignorable=True)
    """Epoch of the broker's registration; -1: unknown."""
