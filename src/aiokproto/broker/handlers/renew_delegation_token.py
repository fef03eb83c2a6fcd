"""RenewDelegationToken: extend the expiry time of a delegation token (KIP-48)."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from aiokproto.error_codes import ErrorCode

REQUIRES: tuple[Required, ...] = ()


async def handle(request: RenewDelegationTokenRequest, context: RequestContext) -> RenewDelegationTokenResponse:
    client = context.connection
    client.check_delegation()
    expires = context.security.tokens.renew(bytes(request.hmac), request.renew_period_ms, client.principal)
    await context.security.saved()
    return RenewDelegationTokenResponse(error_code=ErrorCode.NONE, expiry_timestamp_ms=expires)
