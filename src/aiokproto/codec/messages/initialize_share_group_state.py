"""InitializeShareGroupState (ApiKey 83): begin the persistent state of a share partition."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string, uuid


class PartitionResult(Struct):
    partition: int32
    error_code: int16
    error_message: string | None = field(default=None)


class InitializeStateResult(Struct):
    topic_id: uuid
    partitions: list[PartitionResult]


class InitializeShareGroupStateResponse(Response, key=83, versions="0", flexible="0+"):
    results: list[InitializeStateResult]


class PartitionData(Struct):
    partition: int32
    state_epoch: int32
    start_offset: int64


class InitializeStateData(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


class InitializeShareGroupStateRequest(
    Request[InitializeShareGroupStateResponse], key=83, versions="0", flexible="0+", route=Route.SHARE
):
    group_id: string
    topics: list[InitializeStateData]
