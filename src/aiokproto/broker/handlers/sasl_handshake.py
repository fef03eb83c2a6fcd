"""SaslHandshake: choose the SASL mechanism (KIP-43)."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from aiokproto.error_codes import ErrorCode

REQUIRES: tuple[Required, ...] = ()


async def handle(request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    sasl = context.connection.sasl
    if sasl is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])
    return sasl.handshake(request, context.version)
