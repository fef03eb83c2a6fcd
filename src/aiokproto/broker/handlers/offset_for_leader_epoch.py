"""OffsetForLeaderEpoch: the end offset of a leader epoch, which clients use to detect log truncation (KIP-320)."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (Required(Operation.DESCRIBE, ResourceType.TOPIC, unless=Operation.CLUSTER_ACTION),)


async def handle(request: OffsetForLeaderEpochRequest, context: RequestContext) -> OffsetForLeaderEpochResponse:
    topics: list[OffsetForLeaderTopicResult] = []
    async for topic in context.each(request.topics):
        partitions = [_response(topic.topic, requested, context) async for requested in context.each(topic.partitions)]
        topics.append(OffsetForLeaderTopicResult(topic=topic.topic, partitions=partitions))
    return OffsetForLeaderEpochResponse(topics=topics)


def _response(topic: str, requested: OffsetForLeaderPartition, context: RequestContext) -> EpochEndOffset:
    try:
        node_id = context.node.node_id
        partition = context.state.led_partition(topic, requested.partition, node_id, requested.current_leader_epoch)
    except BrokerError as error:
        return EpochEndOffset(error_code=error.code, partition=requested.partition)
    # An unknown epoch isn't an error: its epoch and end offset are -1.
    end = partition.log.end_of_epoch(requested.leader_epoch)
    return EpochEndOffset(
        error_code=ErrorCode.NONE, partition=requested.partition, leader_epoch=end.epoch, end_offset=end.end_offset
    )
