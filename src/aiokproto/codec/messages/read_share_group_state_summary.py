"""ReadShareGroupStateSummary (ApiKey 87): where the persistent state of share partitions begins."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string, uuid


class PartitionResult(Struct):
    partition: int32
    error_code: int16
    error_message: string | None = field(default=None)
    state_epoch: int32
    leader_epoch: int32
    start_offset: int64
    delivery_complete_count: int32 = field("1+", default=-1, ignorable=True)


class ReadStateSummaryResult(Struct):
    topic_id: uuid
    partitions: list[PartitionResult]


class ReadShareGroupStateSummaryResponse(Response, key=87, versions="0-1", flexible="0+"):
    results: list[ReadStateSummaryResult]


class PartitionData(Struct):
    partition: int32
    leader_epoch: int32


class ReadStateSummaryData(Struct):
    topic_id: uuid
    partitions: list[PartitionData]


class ReadShareGroupStateSummaryRequest(
    Request[ReadShareGroupStateSummaryResponse], key=87, versions="0-1", flexible="0+", route=Route.SHARE
):
    group_id: string
    topics: list[ReadStateSummaryData]
