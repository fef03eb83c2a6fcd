"""DescribeUserScramCredentials (ApiKey 50): which SCRAM credentials users have."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string


class CredentialInfo(Struct):
    """A credential, without its secrets."""

    mechanism: int8 = 0
    """1: SCRAM-SHA-256; 2: SCRAM-SHA-512."""
    iterations: int32 = 0
    """Number of hash iterations."""


class DescribeUserScramCredentialsResult(Struct):
    """The credentials of one user."""

    user: string = field(default="", key=True)
    """User name."""
    error_code: int16 = 0
    error_message: string | None = ""
    credential_infos: list[CredentialInfo] = field(factory=list)


class DescribeUserScramCredentialsResponse(Response, key=50, versions="0", flexible="0+"):
    """One result per user. Errors: see `DescribeUserScramCredentialsRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
    results: list[DescribeUserScramCredentialsResult] = field(factory=list)


class UserName(Struct):
    """A user to describe."""

    name: string = field(default="", key=True)
    """User name."""


class DescribeUserScramCredentialsRequest(
    Request[DescribeUserScramCredentialsResponse], key=50, versions="0", flexible="0+", route=Route.ANY
):
    """List which SCRAM credentials users have (KIP-554).

    Sent by admin tools to any broker.

    Errors: CLUSTER_AUTHORIZATION_FAILED; per user: RESOURCE_NOT_FOUND, DUPLICATE_RESOURCE.
    """

    users: list[UserName] | None = field(factory=list)
    """Users to describe; null or empty: all."""
