"""ControlledShutdown (ApiKey 7): a ZooKeeper-era broker asks to hand its leaderships over before it stops."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string


class RemainingPartition(Struct):
    topic_name: string
    partition_index: int32


class ControlledShutdownResponse(Response, key=7, versions="0-3", flexible="3+"):
    error_code: int16
    remaining_partitions: list[RemainingPartition]


class ControlledShutdownRequest(
    Request[ControlledShutdownResponse], key=7, versions="0-3", flexible="3+", route=Route.CONTROLLER
):
    broker_id: int32
    broker_epoch: int64 = field("2+", default=-1, ignorable=True)
