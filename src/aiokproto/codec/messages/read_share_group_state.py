"""ReadShareGroupState (ApiKey 84): the persistent state of share partitions."""

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
    int8,
    int16,
    int32,
    int64,
    string,
)
from aiokproto.codec.wire import ZERO_UUID


class StateBatch(Struct):
    first_offset: int64 = 0
    last_offset: int64 = 0
    delivery_state: int8 = 0
    delivery_count: int16 = 0


class PartitionResult(Struct):
    partition: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = None
    state_epoch: int32 = 0
    start_offset: int64 = 0
    state_batches: list[StateBatch] = field(factory=list)


class ReadStateResult(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionResult] = field(factory=list)


class ReadShareGroupStateResponse(Response, key=84, versions="0", flexible="0+"):
    results: list[ReadStateResult] = field(factory=list)


class PartitionData(Struct):
    partition: PartitionIndex = 0
    leader_epoch: int32 = 0


class ReadStateData(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionData] = field(factory=list)


class ReadShareGroupStateRequest(
    Request[ReadShareGroupStateResponse], key=84, versions="0", flexible="0+", route=Route.SHARE
):
    group_id: GroupId = ""
    topics: list[ReadStateData] = field(factory=list)
