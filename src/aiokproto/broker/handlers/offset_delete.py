"""OffsetDelete: delete a group's offsets, except of topics that members subscribe to (KIP-496)."""

from __future__ import annotations

from aiokproto.broker.groups.classic_group import ClassicGroup
from aiokproto.broker.groups.consumer.group import ConsumerGroup
from aiokproto.broker.groups.consumer_protocol import CONSUMER, subscribed_topics
from aiokproto.broker.groups.share.group import ShareGroup
from aiokproto.broker.groups.streams.group import StreamsGroup
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.required import Required
from aiokproto.codec.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
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
    try:
        context.groups.check_coordinator(request.group_id, context.node.node_id)
        entry = context.groups.entry(request.group_id)
        if entry is None or isinstance(entry.group, ShareGroup):
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND)
        group = entry.group
        if isinstance(group, ClassicGroup) and group.members and group.protocol_type != CONSUMER:
            raise BrokerError(ErrorCode.NON_EMPTY_GROUP)
    except BrokerError as error:
        return OffsetDeleteResponse(error_code=error.code, topics=[])
    if isinstance(group, (ConsumerGroup, StreamsGroup)):
        subscribed = {topic.name for topic in request.topics if group.subscribed(topic.name)}
    else:
        subscribed = subscribed_topics(group)
    return OffsetDeleteResponse(
        error_code=ErrorCode.NONE,
        topics=[_delete(request.group_id, topic, topic.name in subscribed, context) for topic in request.topics],
    )


def _delete(
    group_id: str, topic: OffsetDeleteRequestTopic, subscribed: bool, context: RequestContext
) -> OffsetDeleteResponseTopic:
    responses = []
    for requested in topic.partitions:
        index = requested.partition_index
        error = ErrorCode.NONE
        if context.state.find_partition(topic.name, index) is None:
            error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        elif subscribed:
            error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        else:
            context.groups.delete_offsets(group_id, [(topic.name, index)])
        responses.append(OffsetDeleteResponsePartition(partition_index=index, error_code=error))
    return OffsetDeleteResponseTopic(name=topic.name, partitions=responses)
