"""ShareGroupHeartbeat (KIP-932): join, stay in and leave a share group. Members generate their own ids."""

from __future__ import annotations

from aiokproto.broker.groups.reconciliation import JOIN_GROUP_MEMBER_EPOCH, LEAVE_GROUP_MEMBER_EPOCH
from aiokproto.broker.groups.share.group import ShareHeartbeat
from aiokproto.broker.handlers.group_requests import check_not_blank, heartbeat_response, invalid
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from aiokproto.errors import BrokerError

_MAX_MEMBER_ID = 36
"""The maximum length of a member id, which is the length of a UUID."""

REQUIRES = (
    Required(Operation.READ, ResourceType.GROUP),
    Required(Operation.DESCRIBE, ResourceType.TOPIC, otherwise="refuses the request"),
)


async def handle(request: ShareGroupHeartbeatRequest, context: RequestContext) -> ShareGroupHeartbeatResponse:
    try:
        _check(request)
        async for topic in context.each(request.subscribed_topic_names or ()):
            context.authorize(Operation.DESCRIBE, ResourceType.TOPIC, topic)
        context.groups.check_coordinator(request.group_id, context.node.node_id)
        if request.member_epoch == LEAVE_GROUP_MEMBER_EPOCH:
            result = context.groups.share_leave(request.group_id, request.member_id)
            interval = 0.0
        else:
            result = context.groups.share_heartbeat(request.group_id, _parse(request, context))
            interval = context.groups.share_settings(request.group_id).heartbeat_interval
    except BrokerError as error:
        return ShareGroupHeartbeatResponse(error_code=error.code, error_message=error.detail)
    return heartbeat_response(result, interval, ShareGroupHeartbeatResponse, Assignment, TopicPartitions)


def _check(request: ShareGroupHeartbeatRequest) -> None:
    """Validate the request without looking at the group. Raises :class:`BrokerError`."""
    check_not_blank(request, "group_id", "member_id", "rack_id")
    if len(request.member_id) > _MAX_MEMBER_ID:
        raise invalid(f"member_id has {len(request.member_id)} characters; the limit is {_MAX_MEMBER_ID}")
    if request.member_epoch < LEAVE_GROUP_MEMBER_EPOCH:
        raise invalid(f"member_epoch is {request.member_epoch}")
    if request.member_epoch == JOIN_GROUP_MEMBER_EPOCH and not request.subscribed_topic_names:
        raise invalid("subscribed_topic_names must be set to join")


def _parse(request: ShareGroupHeartbeatRequest, context: RequestContext) -> ShareHeartbeat:
    names = request.subscribed_topic_names
    return ShareHeartbeat(
        request.member_id,
        request.member_epoch,
        request.rack_id,
        frozenset(names) if names is not None else None,
        context.client_id,
        f"/{context.client_host}",
    )
