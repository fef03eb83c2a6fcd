"""ControlledShutdown (ApiKey 7): a ZooKeeper-era broker asks to hand its leaderships over before it stops."""

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
    topic_name: TopicName = ""
    partition_index: PartitionIndex = 0


class ControlledShutdownResponse(Response, key=7, versions="0-3", flexible="3+"):
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
    broker_id: BrokerId = 0
    broker_epoch: int64 = field("2+", default=-1, ignorable=True)
