"""DescribeShareGroupOffsets (KIP-932): the start offsets of share groups. v1: the lag (KIP-1226).

If there is no state, the start offset is -1. This is not an error, even if the partition or the group doesn't exist.
"""

from __future__ import annotations

from collections.abc import Iterable

from aiokproto.broker.handlers.once import Once
from aiokproto.broker.metadata.topics import Topic
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.share.records import ShareGroupOffset
from aiokproto.codec.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (
    Required(Operation.DESCRIBE, ResourceType.GROUP),
    Required(Operation.DESCRIBE, ResourceType.TOPIC),
)


async def handle(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> DescribeShareGroupOffsetsResponse:
    once = Once()
    return DescribeShareGroupOffsetsResponse(
        groups=[
            await _response(requested, context)
            async for requested in context.each(request.groups)
            if once(requested.group_id)
        ]
    )


async def _response(
    requested: DescribeShareGroupOffsetsRequestGroup, context: RequestContext
) -> DescribeShareGroupOffsetsResponseGroup:
    group_id = requested.group_id
    response = DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=[], error_code=ErrorCode.NONE)
    try:
        if group_id:
            context.groups.check_coordinator(group_id, context.node.node_id)
    except BrokerError as error:
        response.error_code, response.error_message = error.code, error.detail
        return response
    if requested.topics is None:
        async for topic_id, indexes in context.each(context.groups.initialized_share_partitions(group_id).items()):
            topic = context.state.topic_by_id(topic_id)
            if topic is not None and context.is_authorized(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
                response.topics.append(await _describe(group_id, topic.name, topic, indexes, context))
    else:
        response.topics = [
            await _describe(
                group_id, wanted.topic_name, context.state.topics.get(wanted.topic_name), wanted.partitions, context
            )
            async for wanted in context.each(requested.topics)
        ]
    return response


async def _describe(
    group_id: str, name: str, topic: Topic | None, indexes: Iterable[int], context: RequestContext
) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=topic.topic_id if topic is not None else ZERO_UUID,
        partitions=[_partition(group_id, topic, index, context) async for index in context.each(indexes)],
    )


def _partition(
    group_id: str, topic: Topic | None, index: int, context: RequestContext
) -> DescribeShareGroupOffsetsResponsePartition:
    state = _state(group_id, topic, index, context) if topic is not None else None
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=index,
        start_offset=state.start_offset if state is not None else -1,
        leader_epoch=state.leader_epoch if state is not None else 0,
        lag=_lag(state, topic.partitions[index].log.end_offset) if state is not None and topic is not None else -1,
        error_code=ErrorCode.NONE,
        error_message=None,
    )


def _state(group_id: str, topic: Topic, index: int, context: RequestContext) -> ShareGroupOffset | None:
    try:
        return context.share_states.summary(group_id, topic.topic_id, index)
    except BrokerError:
        return None


def _lag(state: ShareGroupOffset, end_offset: int) -> int:
    """Return how many records at or after the start offset aren't in a terminal state, or -1 if unknown."""
    if state.start_offset == -1 or state.delivery_complete_count == -1:
        return -1
    return end_offset - state.start_offset - state.delivery_complete_count
