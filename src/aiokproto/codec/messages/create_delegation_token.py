"""CreateDelegationToken (ApiKey 38): issue a delegation token."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string


class CreateDelegationTokenResponse(Response, key=38, versions="0-3", flexible="2+", client_throttles="1+"):
    """The new token. Errors: see `CreateDelegationTokenRequest`."""

    error_code: int16 = 0
    principal_type: string = ""
    """Type of the token's owner, such as `User`."""
    principal_name: string = ""
    """Name of the token's owner."""
    token_requester_principal_type: string = field("3+", default="")
    """Type of the principal that requested the token, such as `User`."""
    token_requester_principal_name: string = field("3+", default="")
    """Name of the principal that requested the token."""
    issue_timestamp_ms: int64 = 0
    """Time the token was created, in ms since 1970."""
    expiry_timestamp_ms: int64 = 0
    """Time the token expires unless it is renewed, in ms since 1970."""
    max_timestamp_ms: int64 = 0
    """Time after which the token cannot be renewed, in ms since 1970."""
    token_id: string = ""
    """Id of the token, the SCRAM user name of its users."""
    hmac: bytes = field(default=b"", secret=True)
    """HMAC of the token id, the SCRAM password of its users."""
    throttle_time_ms: int32 = 0


class CreatableRenewers(Struct):
    """A principal that can renew the token."""

    principal_type: string = ""
    """Type of the principal, such as `User`."""
    principal_name: string = ""
    """Name of the principal."""


class CreateDelegationTokenRequest(
    Request[CreateDelegationTokenResponse], key=38, versions="0-3", flexible="2+", route=Route.CONTROLLER
):
    """Create a delegation token, which authenticates with SASL/SCRAM in place of the owner's own credentials
    (KIP-48).

    Sent by admin tools to the controller; brokers forward it.

    Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTH_DISABLED,
    DELEGATION_TOKEN_AUTHORIZATION_FAILED, INVALID_PRINCIPAL_TYPE, NOT_CONTROLLER.
    """

    owner_principal_type: string | None = field("3+", default="")
    """Type of the owner; null or empty: the principal that sends the request (KIP-373)."""
    owner_principal_name: string | None = field("3+", default="")
    """Name of the owner; null or empty: the principal that sends the request."""
    renewers: list[CreatableRenewers] = field(factory=list)
    max_lifetime_ms: int64 = 0
    """Maximum lifetime of the token, in ms; -1: the broker's `delegation.token.max.lifetime.ms`."""
