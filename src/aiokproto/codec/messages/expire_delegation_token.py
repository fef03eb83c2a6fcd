"""ExpireDelegationToken (ApiKey 40): end a delegation token, or shorten its life."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, int16, int32, int64


class ExpireDelegationTokenResponse(Response, key=40, versions="0-2", flexible="2+", client_throttles="1+"):
    error_code: int16 = 0
    expiry_timestamp_ms: int64 = 0
    throttle_time_ms: int32 = 0


class ExpireDelegationTokenRequest(
    Request[ExpireDelegationTokenResponse], key=40, versions="0-2", flexible="2+", route=Route.CONTROLLER
):
    hmac: bytes = b""
    expiry_time_period_ms: int64 = 0
