"""DeleteShareGroupOffsets (KIP-932): delete a share group's state for some topics. The group must have no members."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (
    Required(Operation.DELETE, ResourceType.GROUP),
    Required(Operation.READ, ResourceType.TOPIC),
)


async def handle(request: DeleteShareGroupOffsetsRequest, context: RequestContext) -> DeleteShareGroupOffsetsResponse:
    names = dict.fromkeys([topic.topic_name async for topic in context.each(request.topics)])
    known = [context.state.topics[name] for name in names if name in context.state.topics]
    try:
        context.groups.check_coordinator(request.group_id, context.node.node_id)
        results = context.groups.delete_share_offsets(request.group_id, known)
    except BrokerError as error:
        return DeleteShareGroupOffsetsResponse(error_code=error.code, error_message=error.detail, responses=[])
    ids = {topic.name: topic.topic_id for topic in known}
    return DeleteShareGroupOffsetsResponse(
        error_code=ErrorCode.NONE,
        responses=[
            DeleteShareGroupOffsetsResponseTopic(
                topic_name=name,
                # Like Kafka, only return a topic's id if state of that topic was deleted.
                topic_id=ids[name] if error is ErrorCode.NONE else ZERO_UUID,
                error_code=error,
                error_message="the group has no state of this topic" if error else None,
            )
            async for name, error in context.each(
                (name, results.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)) for name in names
            )
        ],
    )
