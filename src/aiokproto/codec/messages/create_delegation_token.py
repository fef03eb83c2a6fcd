"""CreateDelegationToken (ApiKey 38): issue a delegation token."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, int64, string


class CreateDelegationTokenResponse(Response, key=38, versions="0-3", flexible="2+", client_throttles="1+"):
    error_code: int16 = 0
    principal_type: string = ""
    principal_name: string = ""
    token_requester_principal_type: string = field("3+", default="")
    token_requester_principal_name: string = field("3+", default="")
    issue_timestamp_ms: int64 = 0
    expiry_timestamp_ms: int64 = 0
    max_timestamp_ms: int64 = 0
    token_id: string = ""
    hmac: bytes = b""
    throttle_time_ms: int32 = 0


class CreatableRenewers(Struct):
    principal_type: string = ""
    principal_name: string = ""


class CreateDelegationTokenRequest(
    Request[CreateDelegationTokenResponse], key=38, versions="0-3", flexible="2+", route=Route.CONTROLLER
):
    owner_principal_type: string | None = field("3+", default="")
    owner_principal_name: string | None = field("3+", default="")
    renewers: list[CreatableRenewers] = field(factory=list)
    max_lifetime_ms: int64 = 0
