"""SaslAuthenticate (ApiKey 36): one step of the SASL exchange."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, field, int16, int64, string


class SaslAuthenticateResponse(Response, key=36, versions="0-2", flexible="2+"):
    error_code: int16 = 0
    error_message: string | None = ""
    auth_bytes: bytes = b""
    session_lifetime_ms: int64 = field("1+", default=0, ignorable=True)


class SaslAuthenticateRequest(
    Request[SaslAuthenticateResponse], key=36, versions="0-2", flexible="2+", route=Route.BROKER
):
    auth_bytes: bytes = b""
