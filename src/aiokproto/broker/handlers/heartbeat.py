"""Heartbeat: keep a classic group member's session alive and report rebalances. v3: static members (KIP-345)."""

from __future__ import annotations

from aiokproto.broker.groups.classic_member import Identity
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokproto.errors import BrokerError

REQUIRES = (Required(Operation.READ, ResourceType.GROUP),)


async def handle(request: HeartbeatRequest, context: RequestContext) -> HeartbeatResponse:
    try:
        context.groups.check_coordinator(request.group_id, context.node.node_id)
    except BrokerError as error:
        return HeartbeatResponse(error_code=error.code)
    identity = Identity(request.member_id, request.generation_id, request.group_instance_id)
    return HeartbeatResponse(error_code=context.groups.heartbeat(request.group_id, identity))
