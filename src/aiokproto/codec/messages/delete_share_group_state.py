"""DeleteShareGroupState (ApiKey 86): drop the persistent state of share partitions."""

from __future__ import annotations

from aiokproto.codec.schema import (
    GroupId,
    PartitionIndex,
    Request,
    Response,
    Route,
    Struct,
    TopicId,
    field,
    int16,
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class PartitionResult(Struct):
    partition: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = None


class DeleteStateResult(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionResult] = field(factory=list)


class DeleteShareGroupStateResponse(Response, key=86, versions="0", flexible="0+"):
    results: list[DeleteStateResult] = field(factory=list)


class PartitionData(Struct):
    partition: PartitionIndex = 0


class DeleteStateData(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionData] = field(factory=list)


class DeleteShareGroupStateRequest(
    Request[DeleteShareGroupStateResponse], key=86, versions="0", flexible="0+", route=Route.SHARE
):
    group_id: GroupId = ""
    topics: list[DeleteStateData] = field(factory=list)
