"""CreateDelegationToken: create a token to authenticate as the client (KIP-48). v3: for another user (KIP-373)."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.security.principal import Principal
from aiokproto.broker.security.tokens import DelegationToken
from aiokproto.codec.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from aiokproto.codec.schema import Versions
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

REQUIRES = (
    Required(
        Operation.CREATE_TOKENS,
        ResourceType.USER,
        versions=Versions.parse("3+"),
        otherwise="refuses a token for another user",
    ),
)


async def handle(request: CreateDelegationTokenRequest, context: RequestContext) -> CreateDelegationTokenResponse:
    requester = context.connection.principal
    owner = requester
    if request.owner_principal_name:
        owner = Principal(request.owner_principal_type or "", request.owner_principal_name)
    response = CreateDelegationTokenResponse(
        error_code=ErrorCode.NONE,
        principal_type=owner.kind,
        principal_name=owner.name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
        token_id="",
        hmac=b"",
    )
    if context.version >= 3:
        response.token_requester_principal_type, response.token_requester_principal_name = requester
    try:
        token = await _create(request, owner, context)
    except BrokerError as error:
        response.error_code = error.code
        return response
    await context.security.saved()
    response.issue_timestamp_ms, response.expiry_timestamp_ms = token.issued, token.expires
    response.max_timestamp_ms, response.token_id = token.ends, token.token_id
    response.hmac = context.security.tokens.hmac(token)
    return response


async def _create(request: CreateDelegationTokenRequest, owner: Principal, context: RequestContext) -> DelegationToken:
    requester = context.connection.principal
    context.connection.check_delegation()
    if owner != requester:
        context.authorize(Operation.CREATE_TOKENS, ResourceType.USER, str(owner))
    renewers = [Principal(each.principal_type, each.principal_name) async for each in context.each(request.renewers)]
    return context.security.tokens.create(owner, requester, renewers, request.max_lifetime_ms)
