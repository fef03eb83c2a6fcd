"""AlterUserScramCredentials (ApiKey 51): set or delete SCRAM credentials."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string


class AlterUserScramCredentialsResult(Struct):
    """The result of one user."""

    user: string = field(default="", key=True)
    """User name."""
    error_code: int16 = 0
    error_message: string | None = ""


class AlterUserScramCredentialsResponse(Response, key=51, versions="0", flexible="0+"):
    """One result per user. Errors: see `AlterUserScramCredentialsRequest`."""

    throttle_time_ms: int32 = 0
    results: list[AlterUserScramCredentialsResult] = field(factory=list)


class ScramCredentialDeletion(Struct):
    """A credential to delete."""

    name: string = field(default="", key=True)
    """User name."""
    mechanism: int8 = 0
    """1: SCRAM-SHA-256; 2: SCRAM-SHA-512."""


class ScramCredentialUpsertion(Struct):
    """A credential to create or replace."""

    name: string = field(default="", key=True)
    """User name."""
    mechanism: int8 = 0
    """1: SCRAM-SHA-256; 2: SCRAM-SHA-512."""
    iterations: int32 = 0
    """Number of hash iterations."""
    salt: bytes = b""
    """Random salt that the client chose."""
    salted_password: bytes = field(default=b"", secret=True)
    """`Hi(password, salt, iterations)` of RFC 5802: the password itself is not sent."""


class AlterUserScramCredentialsRequest(
    Request[AlterUserScramCredentialsResponse], key=51, versions="0", flexible="0+", route=Route.CONTROLLER
):
    """Create, replace or delete SCRAM credentials of users (KIP-554).

    Sent by admin tools to the controller; brokers forward it.

    Errors: per user: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, DUPLICATE_RESOURCE, RESOURCE_NOT_FOUND,
    UNACCEPTABLE_CREDENTIAL, UNSUPPORTED_SASL_MECHANISM, UNSUPPORTED_VERSION (the metadata version is too low).
    """

    deletions: list[ScramCredentialDeletion] = field(factory=list)
    upsertions: list[ScramCredentialUpsertion] = field(factory=list)
