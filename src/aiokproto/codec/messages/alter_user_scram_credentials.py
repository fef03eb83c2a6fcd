"""AlterUserScramCredentials (ApiKey 51): set or delete SCRAM credentials."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string


class AlterUserScramCredentialsResult(Struct):
    user: string = field(default="", key=True)
    error_code: int16 = 0
    error_message: string | None = ""


class AlterUserScramCredentialsResponse(Response, key=51, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    results: list[AlterUserScramCredentialsResult] = field(factory=list)


class ScramCredentialDeletion(Struct):
    name: string = field(default="", key=True)
    mechanism: int8 = 0


class ScramCredentialUpsertion(Struct):
    name: string = field(default="", key=True)
    mechanism: int8 = 0
    iterations: int32 = 0
    salt: bytes = b""
    salted_password: bytes = b""


class AlterUserScramCredentialsRequest(
    Request[AlterUserScramCredentialsResponse], key=51, versions="0", flexible="0+", route=Route.CONTROLLER
):
    deletions: list[ScramCredentialDeletion] = field(factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(factory=list)
