"""CreateAcls: add access control entries. The error messages are Kafka's."""

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
    outcomes = [_read_or_fail(creation) async for creation in context.each(request.creations)]
    # There must be no await from here until the entries are added, because other requests add entries, too.
    acls: list[Acl] = []
    for number, outcome in enumerate(outcomes):
        if isinstance(outcome, Acl):
            if len(authorizer) + len(acls) < MAX_ACLS:
                acls.append(outcome)
            else:
                text = f"the authorizer has {MAX_ACLS} entries, its maximum"
                outcomes[number] = BrokerError(ErrorCode.POLICY_VIOLATION, detail=text)
    if acls:
        context.security.add_acls(acls)
        await context.security.saved()
    return CreateAclsResponse(results=[_result(outcome) async for outcome in context.each(outcomes)])


def known(kind: type[Kind], code: int) -> Kind:
    """Return the enum member with a code. If no member has it, return UNKNOWN, which is 0 in all of these enums."""
    return kind(code) if code in kind.__members__.values() else kind(0)


def _read_or_fail(creation: AclCreation) -> Acl | BrokerError:
    try:
        return _read(creation)
    except BrokerError as error:
        return error


def _result(outcome: Acl | BrokerError) -> AclCreationResult:
    if isinstance(outcome, BrokerError):
        return AclCreationResult(error_code=outcome.code, error_message=outcome.detail)
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
