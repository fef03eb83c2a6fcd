"""DescribeAcls: the access control entries that match a filter."""

from __future__ import annotations

from collections import defaultdict

from aiokproto.broker.handlers.create_acls import known
from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.delete_acls import DeleteAclsFilter
from aiokproto.codec.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (Required(Operation.DESCRIBE, ResourceType.CLUSTER),)


async def handle(request: DescribeAclsRequest, context: RequestContext) -> DescribeAclsResponse:
    authorizer = context.security.authorizer
    if authorizer is None:
        raise BrokerError(ErrorCode.SECURITY_DISABLED, detail="No Authorizer is configured on the broker")
    by_resource: dict[tuple[ResourceType, str, PatternType], list[Acl]] = defaultdict(list)
    async for acl in context.each(await context.turns.finish(authorizer.finding(read_filter(request)))):
        by_resource[acl.resource_type, acl.name, acl.pattern_type].append(acl)
    return DescribeAclsResponse(
        error_code=ErrorCode.NONE,
        error_message=None,
        resources=[
            DescribeAclsResource(
                resource_type=resource_type,
                resource_name=name,
                pattern_type=pattern_type,
                acls=[
                    AclDescription(
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in acls
                ],
            )
            for (resource_type, name, pattern_type), acls in by_resource.items()
        ],
    )


def read_filter(requested: DescribeAclsRequest | DeleteAclsFilter) -> AclFilter:
    """Return the filter in a request.

    Raises:
        BrokerError: INVALID_REQUEST: the request contains a code that this broker doesn't know.
    """
    wanted = AclFilter(
        known(ResourceType, requested.resource_type_filter),
        requested.resource_name_filter,
        known(PatternType, requested.pattern_type_filter),
        requested.principal_filter,
        requested.host_filter,
        known(Operation, requested.operation),
        known(Permission, requested.permission_type),
    )
    if wanted.unknown:
        raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"the filter's {wanted.unknown} is unknown")
    return wanted
