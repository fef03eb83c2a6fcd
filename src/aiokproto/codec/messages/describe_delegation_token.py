"""DescribeDelegationToken (ApiKey 41): the delegation tokens of owners."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string


class DescribedDelegationTokenRenewer(Struct):
    principal_type: string = ""
    principal_name: string = ""


class DescribedDelegationToken(Struct):
    principal_type: string = ""
    principal_name: string = ""
    token_requester_principal_type: string = field("3+", default="")
    token_requester_principal_name: string = field("3+", default="")
    issue_timestamp: int64 = 0
    expiry_timestamp: int64 = 0
    max_timestamp: int64 = 0
    token_id: string = ""
    hmac: bytes = b""
    renewers: list[DescribedDelegationTokenRenewer] = field(factory=list)


class DescribeDelegationTokenResponse(Response, key=41, versions="0-3", flexible="2+", client_throttles="1+"):
    error_code: int16 = 0
    tokens: list[DescribedDelegationToken] = field(factory=list)
    throttle_time_ms: int32 = 0


class DescribeDelegationTokenOwner(Struct):
    principal_type: string = ""
    principal_name: string = ""


class DescribeDelegationTokenRequest(
    Request[DescribeDelegationTokenResponse], key=41, versions="0-3", flexible="2+", route=Route.ANY
):
    owners: list[DescribeDelegationTokenOwner] | None = field(factory=list)
