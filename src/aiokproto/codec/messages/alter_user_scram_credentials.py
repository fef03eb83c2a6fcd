"""AlterUserScramCredentials (ApiKey 51): set or delete SCRAM credentials."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, int8, int16, int32, string


class AlterUserScramCredentialsResult(Struct):
    user: string
    error_code: int16
    error_message: string | None


class AlterUserScramCredentialsResponse(Response, key=51, versions="0", flexible="0+"):
    throttle_time_ms: int32
    results: list[AlterUserScramCredentialsResult]


class ScramCredentialDeletion(Struct):
    name: string
    mechanism: int8


class ScramCredentialUpsertion(Struct):
    name: string
    mechanism: int8
    iterations: int32
    salt: bytes
    salted_password: bytes


class AlterUserScramCredentialsRequest(
    Request[AlterUserScramCredentialsResponse], key=51, versions="0", flexible="0+", route=Route.CONTROLLER
):
    deletions: list[ScramCredentialDeletion]
    upsertions: list[ScramCredentialUpsertion]
