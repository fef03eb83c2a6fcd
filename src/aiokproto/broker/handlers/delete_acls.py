"""DeleteAcls: delete access control entries that match filters."""

from __future__ import annotations

from aiokproto.broker.handlers.describe_acls import read_filter
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Acl, Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.security.authorizer import Authorizer
from aiokproto.codec.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (Required(Operation.ALTER, ResourceType.CLUSTER),)


async def handle(request: DeleteAclsRequest, context: RequestContext) -> DeleteAclsResponse:
    authorizer = context.security.authorizer
    if authorizer is None:
        raise BrokerError(ErrorCode.SECURITY_DISABLED, detail="No Authorizer is configured.")
    found: dict[Acl, None] = {}
    results = [await _find(requested, authorizer, found, context) async for requested in context.each(request.filters)]
    # Another request may have deleted some entries in the meantime.
    left = [acl for acl in found if acl in authorizer]
    if left:
        context.security.remove_acls(left)
        await context.security.saved()
    return DeleteAclsResponse(filter_results=results)


async def _find(
    requested: DeleteAclsFilter, authorizer: Authorizer, found: dict[Acl, None], context: RequestContext
) -> DeleteAclsFilterResult:
    try:
        acls = await context.turns.finish(authorizer.finding(read_filter(requested)))
    except BrokerError as error:
        return DeleteAclsFilterResult(error_code=error.code, error_message=error.detail, matching_acls=[])
    found.update(dict.fromkeys(acls))
    return DeleteAclsFilterResult(
        error_code=ErrorCode.NONE,
        error_message=None,
        matching_acls=[_describe(acl) async for acl in context.each(acls)],
    )


def _describe(acl: Acl) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.NONE,
        error_message=None,
        resource_type=acl.resource_type,
        resource_name=acl.name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission_type=acl.permission,
    )
