"""InitializeShareGroupState (ApiKey 83): begin the persistent state of a share partition."""

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
    int32,
    int64,
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class PartitionResult(Struct):
    partition: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = None


class InitializeStateResult(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionResult] = field(factory=list)


class InitializeShareGroupStateResponse(Response, key=83, versions="0", flexible="0+"):
    results: list[InitializeStateResult] = field(factory=list)


class PartitionData(Struct):
    partition: PartitionIndex = 0
    state_epoch: int32 = 0
    start_offset: int64 = 0


class InitializeStateData(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionData] = field(factory=list)


class InitializeShareGroupStateRequest(
    Request[InitializeShareGroupStateResponse], key=83, versions="0", flexible="0+", route=Route.SHARE
):
    group_id: GroupId = ""
    topics: list[InitializeStateData] = field(factory=list)
