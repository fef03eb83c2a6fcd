"""LeaveGroup: remove members from a classic group. v3: several members, and static members by instance id alone
(KIP-345)."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberResponse
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (Required(Operation.READ, ResourceType.GROUP),)


async def handle(request: LeaveGroupRequest, context: RequestContext) -> LeaveGroupResponse:
    try:
        context.groups.check_coordinator(request.group_id, context.node.node_id)
    except BrokerError as error:
        return LeaveGroupResponse(error_code=error.code)
    # Since v3 (KIP-345), there can be several members, each with its own error. Before v3, the member's error is the
    # response's error.
    if context.version < 3:
        return LeaveGroupResponse(error_code=context.groups.leave(request.group_id, request.member_id, None))
    return LeaveGroupResponse(
        error_code=ErrorCode.NONE,
        members=[
            MemberResponse(
                member_id=member.member_id,
                group_instance_id=member.group_instance_id,
                error_code=context.groups.leave(request.group_id, member.member_id, member.group_instance_id),
            )
            async for member in context.each(request.members)
        ],
    )
