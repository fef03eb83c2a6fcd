"""DeleteGroups: delete groups that have no members, along with their offsets (KIP-229)."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (Required(Operation.DELETE, ResourceType.GROUP),)


async def handle(request: DeleteGroupsRequest, context: RequestContext) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=_delete(group_id, context))
            async for group_id in context.each(request.groups_names)
        ],
    )


def _delete(group_id: str, context: RequestContext) -> ErrorCode:
    try:
        context.groups.check_coordinator(group_id, context.node.node_id)
    except BrokerError as error:
        return error.code
    return context.groups.delete_group(group_id)
