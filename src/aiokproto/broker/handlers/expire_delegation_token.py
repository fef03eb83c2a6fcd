"""ExpireDelegationToken: expire a delegation token immediately, or change when it expires (KIP-48)."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from aiokproto.error_codes import ErrorCode

REQUIRES: tuple[Required, ...] = ()


async def handle(request: ExpireDelegationTokenRequest, context: RequestContext) -> ExpireDelegationTokenResponse:
    client = context.connection
    client.check_delegation()
    expires = context.security.tokens.expire(bytes(request.hmac), request.expiry_time_period_ms, client.principal)
    await context.security.saved()
    return ExpireDelegationTokenResponse(error_code=ErrorCode.NONE, expiry_timestamp_ms=expires)
