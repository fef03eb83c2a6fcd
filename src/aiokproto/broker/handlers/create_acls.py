"""CreateAcls: add access control entries. Error texts are Kafka's."""

from __future__ import annotations

from enum import IntEnum
from typing import TypeVar

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import (
    CLUSTER_NAME,
    Acl,
    Operation,
    PatternType,
    Permission,
    ResourceType,
    check_host,
)
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.security.authorizer import MAX_ACLS
from aiokproto.broker.security.principal import parse_principal
from aiokproto.codec.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

Kind = TypeVar("Kind", bound=IntEnum)

REQUIRES = (Required(Operation.ALTER, ResourceType.CLUSTER),)


async def handle(request: CreateAclsRequest, context: RequestContext) -> CreateAclsResponse:
    authorizer = context.security.authorizer
    if authorizer is None:
        raise BrokerError(ErrorCode.SECURITY_DISABLED, detail="No Authorizer is configured.")
    read = [_read_or_fail(creation) async for creation in context.each(request.creations)]
    # From here on at once: others add entries, too.
    acls: list[Acl] = []
    for number, each in enumerate(read):
        if isinstance(each, Acl):
            if len(authorizer) + len(acls) < MAX_ACLS:
                acls.append(each)
            else:
                text = f"the authorizer has {MAX_ACLS} entries, its maximum"
                read[number] = BrokerError(ErrorCode.POLICY_VIOLATION, detail=text)
    if acls:
        context.security.add_acls(acls)
        await context.security.saved()
    return CreateAclsResponse(results=[_result(each) async for each in context.each(read)])


def known(kind: type[Kind], code: int) -> Kind:
    """Return the enum member with a code; UNKNOWN, which is 0 in all of these enums, if there is none."""
    return kind(code) if code in kind.__members__.values() else kind(0)


def _read_or_fail(creation: AclCreation) -> Acl | BrokerError:
    try:
        return _read(creation)
    except BrokerError as error:
        return error


def _result(of: Acl | BrokerError) -> AclCreationResult:
    if isinstance(of, BrokerError):
        return AclCreationResult(error_code=of.code, error_message=of.detail)
    return AclCreationResult(error_code=ErrorCode.NONE, error_message=None)


def _read(creation: AclCreation) -> Acl:
    acl = Acl(
        known(ResourceType, creation.resource_type),
        creation.resource_name,
        known(PatternType, creation.resource_pattern_type),
        creation.principal,
        creation.host,
        known(Operation, creation.operation),
        known(Permission, creation.permission_type),
    )
    if acl.resource_type is ResourceType.CLUSTER and acl.name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.name:
        raise _invalid("Invalid empty resource name")
    if acl.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        raise _invalid(f"Invalid resourceType {acl.resource_type.name}")
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {acl.pattern_type.name}")
    if acl.operation in (Operation.UNKNOWN, Operation.ANY):
        raise _invalid(f"Invalid operation {acl.operation.name}")
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        raise _invalid(f"Invalid permissionType {acl.permission.name}")
    try:
        parse_principal(acl.principal)
        check_host(acl.host)
    except ValueError as error:
        raise _invalid(str(error)) from None
    return acl


def _invalid(text: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, detail=text)
