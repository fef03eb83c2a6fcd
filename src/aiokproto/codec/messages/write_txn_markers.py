"""WriteTxnMarkers (ApiKey 27): a transaction coordinator ends transactions in the partitions they wrote to."""

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
    partition_index: PartitionIndex = 0
    error_code: int16 = 0


class WritableTxnMarkerTopicResult(Struct):
    name: TopicName = ""
    partitions: list[WritableTxnMarkerPartitionResult] = field(factory=list)


class WritableTxnMarkerResult(Struct):
    producer_id: ProducerId = 0
    topics: list[WritableTxnMarkerTopicResult] = field(factory=list)


class WriteTxnMarkersResponse(Response, key=27, versions="0-2", flexible="1+"):
    markers: list[WritableTxnMarkerResult] = field(factory=list)


class WritableTxnMarkerTopic(Struct):
    name: TopicName = ""
    partition_indexes: list[PartitionIndex] = field(factory=list)


class WritableTxnMarker(Struct):
    producer_id: ProducerId = 0
    producer_epoch: int16 = 0
    transaction_result: bool = False
    topics: list[WritableTxnMarkerTopic] = field(factory=list)
    coordinator_epoch: int32 = 0
    transaction_version: int8 = field("2+", default=0, ignorable=True)


class WriteTxnMarkersRequest(
    Request[WriteTxnMarkersResponse], key=27, versions="0-2", flexible="1+", route=Route.LEADER
):
    markers: list[WritableTxnMarker] = field(factory=list)
