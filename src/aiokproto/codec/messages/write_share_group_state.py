"""WriteShareGroupState (ApiKey 85): replace the persistent state of share partitions."""

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


class PartitionResult(Struct):
    partition: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = None


class WriteStateResult(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionResult] = field(factory=list)


class WriteShareGroupStateResponse(Response, key=85, versions="0-1", flexible="0+"):
    results: list[WriteStateResult] = field(factory=list)


class StateBatch(Struct):
    first_offset: int64 = 0
    last_offset: int64 = 0
    delivery_state: int8 = 0
    delivery_count: int16 = 0


class PartitionData(Struct):
    partition: PartitionIndex = 0
    state_epoch: int32 = 0
    leader_epoch: int32 = 0
    start_offset: int64 = 0
    delivery_complete_count: int32 = field("1+", default=-1, ignorable=True)
    state_batches: list[StateBatch] = field(factory=list)


class WriteStateData(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionData] = field(factory=list)


class WriteShareGroupStateRequest(
    Request[WriteShareGroupStateResponse], key=85, versions="0-1", flexible="0+", route=Route.SHARE
):
    group_id: GroupId = ""
    topics: list[WriteStateData] = field(factory=list)
