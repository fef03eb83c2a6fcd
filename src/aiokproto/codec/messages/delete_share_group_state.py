"""DeleteShareGroupState (ApiKey 86): drop the persistent state of share partitions."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, string, uuid


class PartitionResult(Struct):
    partition: int32
    error_code: int16
    error_message: string | None = field(default=None)


class DeleteStateResult(Struct):
    topic_id: uuid
    partitions: list[PartitionResult]


class DeleteShareGroupStateResponse(Response, key=86, versions="0", flexible="0+"):
    results: list[DeleteStateResult]


class PartitionData(Struct):
    partition: int32


class DeleteStateData(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


class DeleteShareGroupStateRequest(
    Request[DeleteShareGroupStateResponse], key=86, versions="0", flexible="0+", route=Route.SHARE
):
    group_id: string
    topics: list[DeleteStateData]
