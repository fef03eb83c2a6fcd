"""DeleteRecords (ApiKey 21): move the start of partitions forward, dropping everything before it."""

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
    """The result of one partition."""

    partition_index: PartitionIndex = 0
    low_watermark: int64 = field(default=0, refused=-1)
    """Smallest log start offset among the live replicas; -1: an error."""
    error_code: int16 = 0


class DeleteRecordsTopicResult(Struct):
    """The results of one topic."""

    name: TopicName = ""
    partitions: list[DeleteRecordsPartitionResult] = field(factory=list)


class DeleteRecordsResponse(Response, key=21, versions="0-2", flexible="2+", client_throttles="1+"):
    """The new start of each partition. Errors: see `DeleteRecordsRequest`."""

    throttle_time_ms: int32 = 0
    topics: list[DeleteRecordsTopicResult] = field(factory=list)


class DeleteRecordsPartition(Struct):
    """A partition to delete records from."""

    partition_index: PartitionIndex = 0
    offset: int64 = 0
    """Delete the records before this offset; -1: the high watermark, which deletes all committed records."""


class DeleteRecordsTopic(Struct):
    """The partitions of one topic."""

    name: TopicName = ""
    partitions: list[DeleteRecordsPartition] = field(factory=list)


class DeleteRecordsRequest(Request[DeleteRecordsResponse], key=21, versions="0-2", flexible="2+", route=Route.LEADERS):
    """Delete the records of partitions before an offset, by moving the log start offset (KIP-107).

    Sent by admin tools to the leaders of the partitions.

    Errors: per partition: TOPIC_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, INVALID_TOPIC_EXCEPTION (an
    internal topic), OFFSET_OUT_OF_RANGE, POLICY_VIOLATION, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR,
    REQUEST_TIMED_OUT.
    """

    topics: list[DeleteRecordsTopic] = field(factory=list)
    timeout_ms: int32 = 0
    """How long the receiver may take, in ms."""
