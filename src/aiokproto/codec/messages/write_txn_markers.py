"""WriteTxnMarkers (ApiKey 27): write COMMIT or ABORT markers to the partitions of transactions."""

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
    int8,
    int16,
    int32,
)


class WritableTxnMarkerPartitionResult(Struct):
    """The result of one partition."""

    partition_index: PartitionIndex = 0
    error_code: int16 = 0


class WritableTxnMarkerTopicResult(Struct):
    """Results of one topic."""

    name: TopicName = ""
    partitions: list[WritableTxnMarkerPartitionResult] = field(factory=list)


class WritableTxnMarkerResult(Struct):
    """Results of one producer's marker."""

    producer_id: ProducerId = 0
    """Id that InitProducerId returned to the producer."""
    topics: list[WritableTxnMarkerTopicResult] = field(factory=list)


class WriteTxnMarkersResponse(Response, key=27, versions="0-2", flexible="1+"):
    """One result per partition of each marker. Errors: see `WriteTxnMarkersRequest`."""

    markers: list[WritableTxnMarkerResult] = field(factory=list)


class WritableTxnMarkerTopic(Struct):
    """Partitions of one topic."""

    name: TopicName = ""
    partition_indexes: list[PartitionIndex] = field(factory=list)


class WritableTxnMarker(Struct):
    """The end of one transaction."""

    producer_id: ProducerId = 0
    """Id that InitProducerId returned to the producer."""
    producer_epoch: int16 = 0
    """Epoch of `producer_id`. The broker rejects an epoch older than the newest it knows."""
    transaction_result: bool = False
    """True: COMMIT; false: ABORT."""
    topics: list[WritableTxnMarkerTopic] = field(factory=list)
    """Partitions to write the marker to, all led by the receiver."""
    coordinator_epoch: int32 = 0
    """Leader epoch of the coordinator's `__transaction_state` partition; TRANSACTION_COORDINATOR_FENCED if a higher one
    has been seen."""
    transaction_version: int8 = field("2+", default=0, ignorable=True)
    """Level of `transaction.version` of the transaction: 0 or 1: legacy; 2: each transaction has its own epoch, so the
    marker's must be higher than the records' (KIP-1228)."""


class WriteTxnMarkersRequest(
    Request[WriteTxnMarkersResponse], key=27, versions="0-2", flexible="1+", route=Route.LEADER
):
    """Write the markers that end transactions.

    Sent by transaction coordinators (brokers), and by admin tools that abort a hanging transaction (KIP-664), to the
    leader of the partitions.

    Errors: per partition: CLUSTER_AUTHORIZATION_FAILED, UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER,
    INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED, NOT_ENOUGH_REPLICAS, NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    REQUEST_TIMED_OUT, UNSUPPORTED_FOR_MESSAGE_FORMAT, CORRUPT_MESSAGE, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE,
    INVALID_REQUIRED_ACKS, KAFKA_STORAGE_ERROR, UNKNOWN_SERVER_ERROR.
    """

    markers: list[WritableTxnMarker] = field(factory=list)
