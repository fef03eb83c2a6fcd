"""WriteTxnMarkers (ApiKey 27): a transaction coordinator ends transactions in the partitions they wrote to."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, int64, string


class WritableTxnMarkerPartitionResult(Struct):
    partition_index: int32
    error_code: int16


class WritableTxnMarkerTopicResult(Struct):
    name: string
    partitions: list[WritableTxnMarkerPartitionResult]


class WritableTxnMarkerResult(Struct):
    producer_id: int64
    topics: list[WritableTxnMarkerTopicResult]


class WriteTxnMarkersResponse(Response, key=27, versions="0-2", flexible="1+"):
    markers: list[WritableTxnMarkerResult]


class WritableTxnMarkerTopic(Struct):
    name: string
    partition_indexes: list[int32]


class WritableTxnMarker(Struct):
    producer_id: int64
    producer_epoch: int16
    transaction_result: bool
    topics: list[WritableTxnMarkerTopic]
    coordinator_epoch: int32
    transaction_version: int8 = field("2+", default=0, ignorable=True)


class WriteTxnMarkersRequest(
    Request[WriteTxnMarkersResponse], key=27, versions="0-2", flexible="1+", route=Route.LEADER
):
    markers: list[WritableTxnMarker]
