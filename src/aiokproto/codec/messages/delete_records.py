"""DeleteRecords (ApiKey 21): move the start of partitions forward, dropping what lies before."""

from __future__ import annotations

from aiokproto.codec.schema import (
    PartitionIndex,
    Request,
    Response,
    Route,
    Struct,
    TopicName,
    field,
    int16,
    int32,
    int64,
)


class DeleteRecordsPartitionResult(Struct):
    partition_index: PartitionIndex = 0
    low_watermark: int64 = field(default=0, refused=-1)
    error_code: int16 = 0


class DeleteRecordsTopicResult(Struct):
    name: TopicName = ""
    partitions: list[DeleteRecordsPartitionResult] = field(factory=list)


class DeleteRecordsResponse(Response, key=21, versions="0-2", flexible="2+", client_throttles="1+"):
    throttle_time_ms: int32 = 0
    topics: list[DeleteRecordsTopicResult] = field(factory=list)


class DeleteRecordsPartition(Struct):
    partition_index: PartitionIndex = 0
    offset: int64 = 0


class DeleteRecordsTopic(Struct):
    name: TopicName = ""
    partitions: list[DeleteRecordsPartition] = field(factory=list)


class DeleteRecordsRequest(Request[DeleteRecordsResponse], key=21, versions="0-2", flexible="2+", route=Route.LEADERS):
    topics: list[DeleteRecordsTopic] = field(factory=list)
    timeout_ms: int32 = 0
