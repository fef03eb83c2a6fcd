"""DescribeDelegationToken (ApiKey 41): the delegation tokens of owners."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string


class DescribedDelegationTokenRenewer(Struct):
    """A principal that can renew the token."""

    principal_type: string = ""
    """Type of the principal, such as `User`."""
    principal_name: string = ""
    """Name of the principal."""


class DescribedDelegationToken(Struct):
    """A token."""

    principal_type: string = ""
    """Type of the token's owner, such as `User`."""
    principal_name: string = ""
    """Name of the token's owner."""
    token_requester_principal_type: string = field("3+", default="")
    """Type of the principal that requested the token, such as `User`."""
    token_requester_principal_name: string = field("3+", default="")
    """Name of the principal that requested the token."""
    issue_timestamp: int64 = 0
    """Time the token was created, in ms since 1970."""
    expiry_timestamp: int64 = 0
    """Time the token expires unless it is renewed, in ms since 1970."""
    max_timestamp: int64 = 0
    """Time after which the token cannot be renewed, in ms since 1970."""
    token_id: string = ""
    """Id of the token, the SCRAM user name of its users."""
    hmac: bytes = field(default=b"", secret=True)
    """HMAC of the token id, the SCRAM password of its users."""
    renewers: list[DescribedDelegationTokenRenewer] = field(factory=list)


class DescribeDelegationTokenResponse(Response, key=41, versions="0-3", flexible="2+", client_throttles="1+"):
    """The tokens that the caller is authorized to see. Errors: see `DescribeDelegationTokenRequest`."""

    error_code: int16 = 0
    tokens: list[DescribedDelegationToken] = field(factory=list)
    throttle_time_ms: int32 = 0


class DescribeDelegationTokenOwner(Struct):
    """An owner whose tokens are requested."""

    principal_type: string = ""
    """Type of the principal, such as `User`."""
    principal_name: string = ""
    """Name of the principal."""


class DescribeDelegationTokenRequest(
    Request[DescribeDelegationTokenResponse], key=41, versions="0-3", flexible="2+", route=Route.ANY
):
    """List delegation tokens (KIP-48).

    Sent by admin tools to any broker.

    Errors: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, DELEGATION_TOKEN_AUTH_DISABLED.
    """

    owners: list[DescribeDelegationTokenOwner] | None = field(factory=list)
    """Owners whose tokens are requested; null: all tokens that the caller can see."""
