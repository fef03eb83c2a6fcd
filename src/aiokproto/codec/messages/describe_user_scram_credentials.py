"""DescribeUserScramCredentials (ApiKey 50): which SCRAM credentials users have."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string


class CredentialInfo(Struct):
    mechanism: int8 = 0
    iterations: int32 = 0


class DescribeUserScramCredentialsResult(Struct):
    user: string = field(default="", key=True)
    error_code: int16 = 0
    error_message: string | None = ""
    credential_infos: list[CredentialInfo] = field(factory=list)


class DescribeUserScramCredentialsResponse(Response, key=50, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
    results: list[DescribeUserScramCredentialsResult] = field(factory=list)


class UserName(Struct):
    name: string = field(default="", key=True)


class DescribeUserScramCredentialsRequest(
    Request[DescribeUserScramCredentialsResponse], key=50, versions="0", flexible="0+", route=Route.CONTROLLER
):
    users: list[UserName] | None = field(factory=list)
