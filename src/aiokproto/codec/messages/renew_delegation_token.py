"""RenewDelegationToken (ApiKey 39): extend the lifetime of a delegation token."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, field, int16, int32, int64


class RenewDelegationTokenResponse(Response, key=39, versions="0-2", flexible="2+", client_throttles="1+"):
    """When the token expires. Errors: see `RenewDelegationTokenRequest`."""

    error_code: int16 = 0
    expiry_timestamp_ms: int64 = 0
    """New expiry time, in ms since the Unix epoch."""
    throttle_time_ms: int32 = 0


class RenewDelegationTokenRequest(
    Request[RenewDelegationTokenResponse], key=39, versions="0-2", flexible="2+", route=Route.CONTROLLER
):
    """Extend the lifetime of a delegation token (KIP-48).

    Sent by the token's owner or a renewer to the controller; in KRaft, any broker forwards it.

    Errors: DELEGATION_TOKEN_AUTH_DISABLED, DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_NOT_FOUND,
    DELEGATION_TOKEN_OWNER_MISMATCH, DELEGATION_TOKEN_EXPIRED, NOT_CONTROLLER.
    """

    hmac: bytes = field(default=b"", secret=True)
    """HMAC of the token, as CreateDelegationToken returned it."""
    renew_period_ms: int64 = 0
    """Time from now until the token expires, in ms, limited by the token's maximum lifetime; negative: the broker's
    `delegation.token.expiry.time.ms`."""
