"""ListGroups v0-5: the groups this node coordinates. v4 filters by state, v5 by type: all here are "classic"."""

from __future__ import annotations

from aiokproto.broker.context import Context
from aiokproto.codec.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from aiokproto.error_codes import ErrorCode

REQUEST = ListGroupsRequest
VERSIONS = "0-5"


async def handle(request: ListGroupsRequest, context: Context) -> ListGroupsResponse:
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    groups = [entry.group for entry in context.groups.entries_of(context.node.node_id)]
    return ListGroupsResponse(
        error_code=ErrorCode.NONE,
        groups=[
            ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type or "",
                group_state=group.state.value,
                group_type="classic",
            )
            for group in groups
            if (not states or group.state.value.lower() in states) and (not types or "classic" in types)
        ],
    )
