"""ReadShareGroupStateSummary (ApiKey 87): where the persistent state of share partitions begins."""

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
    state_epoch: int32 = 0
    leader_epoch: int32 = field(default=0, refused=-1)
    start_offset: int64 = 0
    delivery_complete_count: int32 = field("1+", default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionResult] = field(factory=list)


class ReadShareGroupStateSummaryResponse(Response, key=87, versions="0-1", flexible="0+"):
    results: list[ReadStateSummaryResult] = field(factory=list)


class PartitionData(Struct):
    partition: PartitionIndex = 0
    leader_epoch: int32 = 0


class ReadStateSummaryData(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionData] = field(factory=list)


class ReadShareGroupStateSummaryRequest(
    Request[ReadShareGroupStateSummaryResponse], key=87, versions="0-1", flexible="0+", route=Route.SHARE
):
    group_id: GroupId = ""
    topics: list[ReadStateSummaryData] = field(factory=list)
