"""WriteShareGroupState (ApiKey 85): replace the persistent state of share partitions."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, int64, string, uuid


class PartitionResult(Struct):
    partition: int32
    error_code: int16
    error_message: string | None = field(default=None)


class WriteStateResult(Struct):
    topic_id: uuid
    partitions: list[PartitionResult]


class WriteShareGroupStateResponse(Response, key=85, versions="0-1", flexible="0+"):
    results: list[WriteStateResult]


class StateBatch(Struct):
    first_offset: int64
    last_offset: int64
    delivery_state: int8
    delivery_count: int16


class PartitionData(Struct):
    partition: int32
    state_epoch: int32
    leader_epoch: int32
    start_offset: int64
    delivery_complete_count: int32 = field("1+", default=-1, ignorable=True)
    state_batches: list[StateBatch]


class WriteStateData(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


class WriteShareGroupStateRequest(
    Request[WriteShareGroupStateResponse], key=85, versions="0-1", flexible="0+", route=Route.SHARE
):
    group_id: string
    topics: list[WriteStateData]
