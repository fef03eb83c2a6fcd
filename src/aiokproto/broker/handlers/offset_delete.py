"""OffsetDelete: delete a group's offsets, except for topics that members subscribe to (KIP-496)."""

from __future__ import annotations

from collections.abc import Collection

from aiokproto.broker.groups.classic_group import ClassicGroup
from aiokproto.broker.groups.consumer.group import ConsumerGroup
from aiokproto.broker.groups.consumer_protocol import CONSUMER, subscribed_topics
from aiokproto.broker.groups.share.group import ShareGroup
from aiokproto.broker.groups.streams.group import StreamsGroup
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (
    Required(Operation.DELETE, ResourceType.GROUP),
    Required(Operation.READ, ResourceType.TOPIC),
)


async def handle(request: OffsetDeleteRequest, context: RequestContext) -> OffsetDeleteResponse:
    existing: dict[tuple[str, int], None] = {}
    async for topic in context.each(request.topics):
        async for requested in context.each(topic.partitions):
            if context.state.find_partition(topic.name, requested.partition_index) is not None:
                existing[topic.name, requested.partition_index] = None
    # There must be no await from here until the offsets are deleted, because a member that joined in between would lose
    # the offsets of its topics.
    try:
        subscribed = _delete(request.group_id, existing, context)
    except BrokerError as error:
        return OffsetDeleteResponse(error_code=error.code, topics=[])
    topics: list[OffsetDeleteResponseTopic] = []
    async for topic in context.each(request.topics):
        partitions: list[OffsetDeleteResponsePartition] = []
        async for requested in context.each(topic.partitions):
            code = ErrorCode.NONE
            if (topic.name, requested.partition_index) not in existing:
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif topic.name in subscribed:
                code = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
            partitions.append(OffsetDeleteResponsePartition(partition_index=requested.partition_index, error_code=code))
        topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
    return OffsetDeleteResponse(error_code=ErrorCode.NONE, topics=topics)


def _delete(group_id: str, partitions: Collection[tuple[str, int]], context: RequestContext) -> Collection[str]:
    """Delete a group's offsets, except for topics that members subscribe to. Return these topics.

    Raises:
        BrokerError: The group doesn't exist, or has members that aren't consumers.
    """
    context.groups.check_coordinator(group_id, context.node.node_id)
    entry = context.groups.entry(group_id)
    if entry is None or isinstance(entry.group, ShareGroup):
        raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND)
    group = entry.group
    if isinstance(group, ClassicGroup) and group.members and group.protocol_type != CONSUMER:
        raise BrokerError(ErrorCode.NON_EMPTY_GROUP)
    if isinstance(group, (ConsumerGroup, StreamsGroup)):
        names = dict.fromkeys(topic for topic, _ in partitions)
        subscribed = {name for name in names if group.subscribed(name)}
    else:
        subscribed = subscribed_topics(group)
    deletable = [partition for partition in partitions if partition[0] not in subscribed]
    context.groups.delete_offsets(group_id, deletable)
    return subscribed
