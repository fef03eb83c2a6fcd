"""ListGroups: the groups that this node coordinates. v4: filter by state (KIP-518). v5: filter by type (KIP-848)."""

from __future__ import annotations

from aiokproto.broker.groups.classic_group import ClassicGroup
from aiokproto.broker.groups.store import AnyGroup
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import CLUSTER_NAME, Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (Required(Operation.DESCRIBE, ResourceType.GROUP, unless=Operation.DESCRIBE, otherwise="leaves out groups"),)


async def handle(request: ListGroupsRequest, context: RequestContext) -> ListGroupsResponse:
    try:
        context.groups.check_loaded(context.node.node_id)
    except BrokerError as error:
        return ListGroupsResponse(error_code=error.code, groups=[])
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    may_see_all = context.is_authorized(Operation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)
    groups = [
        _list(entry.group)
        async for entry in context.each(list(context.groups.entries_of(context.node.node_id)))
        if may_see_all or context.is_authorized(Operation.DESCRIBE, ResourceType.GROUP, entry.group.group_id)
    ]
    return ListGroupsResponse(
        error_code=ErrorCode.NONE,
        groups=[
            group
            async for group in context.each(groups)
            if (not states or group.group_state.lower() in states) and (not types or group.group_type in types)
        ],
    )


def _list(group: AnyGroup) -> ListedGroup:
    if isinstance(group, ClassicGroup):
        protocol_type, state = group.protocol_type or "", group.state.value
    else:
        protocol_type, state = group.type, group.state
    return ListedGroup(group_id=group.group_id, protocol_type=protocol_type, group_state=state, group_type=group.type)
