"""DescribeGroups: state and members of classic groups.

As in Kafka, member metadata and assignments are returned for stable groups only. A group that doesn't exist or isn't
classic is "Dead", with the error GROUP_ID_NOT_FOUND since v6 (KIP-1043). v3: authorized operations.
"""

from __future__ import annotations

from aiokproto.broker.groups.classic_group import ClassicGroup
from aiokproto.broker.groups.classic_member import ClassicGroupState
from aiokproto.broker.handlers.group_requests import describe_groups
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.describe_groups import (
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.texts import shortened

REQUIRES = (Required(Operation.DESCRIBE, ResourceType.GROUP),)


async def handle(request: DescribeGroupsRequest, context: RequestContext) -> DescribeGroupsResponse:
    operations = request.include_authorized_operations
    groups = await describe_groups(request.groups, _describe_group, context, operations=operations)
    return DescribeGroupsResponse(groups=groups)


def _describe_group(group_id: str, context: RequestContext) -> DescribedGroup:
    try:
        context.groups.check_coordinator(group_id, context.node.node_id)
    except BrokerError as error:
        return _without_members(group_id, error.code, "")
    entry = context.groups.entry(group_id)
    if entry is not None and isinstance(entry.group, ClassicGroup):
        return _describe_existing(entry.group)
    response = _without_members(group_id, ErrorCode.NONE, ClassicGroupState.DEAD.value)
    if context.version >= 6:
        response.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        response.error_message = f"there is no classic group {shortened(repr(group_id))}"
    return response


def _without_members(group_id: str, error: ErrorCode, state: str) -> DescribedGroup:
    return DescribedGroup(
        error_code=error, group_id=group_id, group_state=state, protocol_type="", protocol_data="", members=[]
    )


def _describe_existing(group: ClassicGroup) -> DescribedGroup:
    stable = group.state is ClassicGroupState.STABLE
    return DescribedGroup(
        error_code=ErrorCode.NONE,
        group_id=group.group_id,
        group_state=group.state.value,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata(group.protocol) if stable else b"",
                member_assignment=member.assignment if stable else b"",
            )
            for member in group.members.values()
        ],
    )
