"""WriteTxnMarkers: end transactions in partitions (KIP-98). It's sent by coordinators, and by tools that fix hanging
transactions.

The transaction version in v2 makes no difference here. Kafka 4 no longer serves v0.
"""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.transactions.transaction_metadata import ProducerIdAndEpoch
from aiokproto.codec.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (Required(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, unless=Operation.ALTER),)


async def handle(request: WriteTxnMarkersRequest, context: RequestContext) -> WriteTxnMarkersResponse:
    markers: list[WritableTxnMarkerResult] = []
    async for marker in context.each(request.markers):
        topics: list[WritableTxnMarkerTopicResult] = []
        async for topic in context.each(marker.topics):
            partitions = [
                WritableTxnMarkerPartitionResult(
                    partition_index=index, error_code=_write(marker, topic.name, index, context)
                )
                async for index in context.each(topic.partition_indexes)
            ]
            topics.append(WritableTxnMarkerTopicResult(name=topic.name, partitions=partitions))
        markers.append(WritableTxnMarkerResult(producer_id=marker.producer_id, topics=topics))
    return WriteTxnMarkersResponse(markers=markers)


def _write(marker: WritableTxnMarker, topic: str, index: int, context: RequestContext) -> ErrorCode:
    # A producer without id or epoch has no transactions, so there's no marker to write.
    if marker.producer_id < 0 or marker.producer_epoch < 0:
        return ErrorCode.INVALID_REQUEST
    producer = ProducerIdAndEpoch(marker.producer_id, marker.producer_epoch)
    try:
        partition = context.state.led_partition(topic, index, context.node.node_id)
        context.transactions.write_marker(partition, producer, marker.transaction_result, marker.coordinator_epoch)
    except BrokerError as error:
        return error.code
    return ErrorCode.NONE
