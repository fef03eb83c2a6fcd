"""DeleteRecords (ApiKey 21): move the start of partitions forward, dropping what lies before."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, int16, int32, int64, string


class DeleteRecordsPartitionResult(Struct):
    partition_index: int32
    low_watermark: int64
    error_code: int16


class DeleteRecordsTopicResult(Struct):
    name: string
    partitions: list[DeleteRecordsPartitionResult]


class DeleteRecordsResponse(Response, key=21, versions="0-2", flexible="2+"):
    throttle_time_ms: int32
    topics: list[DeleteRecordsTopicResult]


class DeleteRecordsPartition(Struct):
    partition_index: int32
    offset: int64


class DeleteRecordsTopic(Struct):
    name: string
    partitions: list[DeleteRecordsPartition]


class DeleteRecordsRequest(Request[DeleteRecordsResponse], key=21, versions="0-2", flexible="2+", route=Route.LEADER):
    topics: list[DeleteRecordsTopic]
    timeout_ms: int32
