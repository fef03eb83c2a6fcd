"""DescribeProducers (ApiKey 61): the producers with state in partitions, and their open transactions."""

from __future__ import annotations

from aiokproto.codec.schema import (
    PartitionIndex,
    ProducerId,
    Request,
    Response,
    Route,
    Struct,
    TopicName,
    field,
    int16,
    int32,
    int64,
    string,
)


class ProducerState(Struct):
    """A producer that the partition leader remembers."""

    producer_id: ProducerId = 0
    """The producer id."""
    producer_epoch: int32 = 0
    """Latest epoch of the producer."""
    last_sequence: int32 = -1
    """Sequence number of its last record; -1: none."""
    last_timestamp: int64 = -1
    """Timestamp of its last record, in ms since 1970; -1: none."""
    coordinator_epoch: int32 = 0
    """Epoch of the transaction coordinator that wrote the last marker; -1: none."""
    current_txn_start_offset: int64 = -1
    """First offset of its open transaction; -1: none is open."""


class PartitionResponse(Struct):
    """The producers of one partition."""

    partition_index: PartitionIndex = 0
    error_code: int16 = 0
    error_message: string | None = None
    active_producers: list[ProducerState] = field(factory=list)


class TopicResponse(Struct):
    """The partitions of one topic."""

    name: TopicName = ""
    partitions: list[PartitionResponse] = field(factory=list)


class DescribeProducersResponse(Response, key=61, versions="0", flexible="0+"):
    """The active producers of each partition. Errors: see `DescribeProducersRequest`."""

    throttle_time_ms: int32 = 0
    topics: list[TopicResponse] = field(factory=list)


class TopicRequest(Struct):
    """Partitions of one topic."""

    name: TopicName = ""
    partition_indexes: list[PartitionIndex] = field(factory=list)


class DescribeProducersRequest(
    Request[DescribeProducersResponse], key=61, versions="0", flexible="0+", route=Route.LEADERS
):
    """List the idempotent and transactional producers of partitions, to find hanging transactions (KIP-664).

    Sent by admin tools to the leaders of the partitions.

    Errors: per partition: TOPIC_AUTHORIZATION_FAILED, INVALID_TOPIC_EXCEPTION, UNKNOWN_TOPIC_OR_PARTITION,
    NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR.
    """

    topics: list[TopicRequest] = field(factory=list)
