"""DescribeDelegationToken: the delegation tokens that the client is permitted to see, by owner (KIP-48, KIP-373)."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.broker.security.principal import Principal
from aiokproto.broker.security.tokens import DelegationToken
from aiokproto.codec.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from aiokproto.error_codes import ErrorCode

REQUIRES = (
    Required(
        Operation.DESCRIBE,
        ResourceType.DELEGATION_TOKEN,
        otherwise="leaves out tokens of others, unless DESCRIBE_TOKENS permits",
    ),
    Required(
        Operation.DESCRIBE_TOKENS, ResourceType.USER, otherwise="leaves out tokens of others, unless DESCRIBE permits"
    ),
)


async def handle(request: DescribeDelegationTokenRequest, context: RequestContext) -> DescribeDelegationTokenResponse:
    context.connection.check_delegation()
    context.security.tokens.check_enabled()
    owners = None
    if request.owners is not None:
        owners = {Principal(owner.principal_type, owner.principal_name) async for owner in context.each(request.owners)}
    return DescribeDelegationTokenResponse(
        error_code=ErrorCode.NONE,
        tokens=[
            _describe(token, context)
            async for token in context.each(list(context.security.tokens))
            if (owners is None or not owners.isdisjoint((token.owner, token.requester, *token.renewers)))
            and _visible(token, context)
        ],
    )


def _visible(token: DelegationToken, context: RequestContext) -> bool:
    """Return whether the client may see a token: either it's one of the client's own, or the client has permission for
    the token or for its owner's tokens."""
    return (
        token.concerns(context.connection.principal)
        or context.is_authorized(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id)
        or context.is_authorized(Operation.DESCRIBE_TOKENS, ResourceType.USER, str(token.owner))
    )


def _describe(token: DelegationToken, context: RequestContext) -> DescribedDelegationToken:
    described = DescribedDelegationToken(
        principal_type=token.owner.kind,
        principal_name=token.owner.name,
        issue_timestamp=token.issued,
        expiry_timestamp=token.expires,
        max_timestamp=token.ends,
        token_id=token.token_id,
        hmac=context.security.tokens.hmac(token),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=renewer.kind, principal_name=renewer.name)
            for renewer in token.renewers
        ],
    )
    if context.version >= 3:
        described.token_requester_principal_type, described.token_requester_principal_name = token.requester
    return described
