"""SyncGroup: the leader sends the assignment, and each member receives its own. The request waits for the leader.

v3: static members (KIP-345). v5: protocol type and name, which are required (KIP-559).
"""

from __future__ import annotations

from aiokproto.broker.groups.classic_member import Identity, SyncResult
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

_NAMES_PROTOCOL = 5

REQUIRES = (Required(Operation.READ, ResourceType.GROUP),)


async def handle(request: SyncGroupRequest, context: RequestContext) -> SyncGroupResponse:
    # Like KafkaApis, check this before looking up the group.
    if context.version >= _NAMES_PROTOCOL and (request.protocol_type is None or request.protocol_name is None):
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL, assignment=b"")
    try:
        context.groups.check_coordinator(request.group_id, context.node.node_id)
    except BrokerError as error:
        result = SyncResult(error.code)
    else:
        result = await context.groups.sync(
            request.group_id,
            Identity(request.member_id, request.generation_id, request.group_instance_id),
            {assignment.member_id: bytes(assignment.assignment) for assignment in request.assignments},
            request.protocol_type,
            request.protocol_name,
        )
    return SyncGroupResponse(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol,
        assignment=result.assignment,
    )
