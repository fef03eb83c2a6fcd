"""DescribeDelegationToken (ApiKey 41): the delegation tokens of owners."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string


class DescribedDelegationTokenRenewer(Struct):
    principal_type: string
    principal_name: string


class DescribedDelegationToken(Struct):
    principal_type: string
    principal_name: string
    token_requester_principal_type: string = field("3+", default="")
    token_requester_principal_name: string = field("3+", default="")
    issue_timestamp: int64
    expiry_timestamp: int64
    max_timestamp: int64
    token_id: string
    hmac: bytes
    renewers: list[DescribedDelegationTokenRenewer]


class DescribeDelegationTokenResponse(Response, key=41, versions="0-3", flexible="2+"):
    error_code: int16
    tokens: list[DescribedDelegationToken]
    throttle_time_ms: int32


class DescribeDelegationTokenOwner(Struct):
    principal_type: string
    principal_name: string


class DescribeDelegationTokenRequest(
    Request[DescribeDelegationTokenResponse], key=41, versions="0-3", flexible="2+", route=Route.ANY
):
    owners: list[DescribeDelegationTokenOwner] | None
