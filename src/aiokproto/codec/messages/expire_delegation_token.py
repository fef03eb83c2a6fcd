"""ExpireDelegationToken (ApiKey 40): expire a delegation token now, or at a given time."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, field, int16, int32, int64


class ExpireDelegationTokenResponse(Response, key=40, versions="0-2", flexible="2+", client_throttles="1+"):
    """When the token expires. Errors: see `ExpireDelegationTokenRequest`."""

    error_code: int16 = 0
    expiry_timestamp_ms: int64 = 0
    """New expiry time, in ms since the Unix epoch; the current time if the token was removed."""
    throttle_time_ms: int32 = 0


class ExpireDelegationTokenRequest(
    Request[ExpireDelegationTokenResponse], key=40, versions="0-2", flexible="2+", route=Route.CONTROLLER
):
    """Remove a delegation token, or set when it expires (KIP-48).

    Sent by the token's owner or a renewer to the controller; in KRaft, any broker forwards it.

    Errors: DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_NOT_FOUND,
    DELEGATION_TOKEN_OWNER_MISMATCH, DELEGATION_TOKEN_EXPIRED, NOT_CONTROLLER.
    """

    hmac: bytes = field(default=b"", secret=True)
    """HMAC of the token, as CreateDelegationToken returned it."""
    expiry_time_period_ms: int64 = 0
    """Time from now until the token expires, in ms, limited by the token's maximum lifetime; negative: remove it
    now."""
