"""ReadShareGroupState (ApiKey 84): the persistent state of share partitions."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, int64, string, uuid


class StateBatch(Struct):
    first_offset: int64
    last_offset: int64
    delivery_state: int8
    delivery_count: int16


class PartitionResult(Struct):
    partition: int32
    error_code: int16
    error_message: string | None = field(default=None)
    state_epoch: int32
    start_offset: int64
    state_batches: list[StateBatch]


class ReadStateResult(Struct):
    topic_id: uuid
    partitions: list[PartitionResult]


class ReadShareGroupStateResponse(Response, key=84, versions="0", flexible="0+"):
    results: list[ReadStateResult]


class PartitionData(Struct):
    partition: int32
    leader_epoch: int32


class ReadStateData(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


class ReadShareGroupStateRequest(
    Request[ReadShareGroupStateResponse], key=84, versions="0", flexible="0+", route=Route.SHARE
):
    group_id: string
    topics: list[ReadStateData]
