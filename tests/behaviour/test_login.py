"""SASL authentication: the same on the embedded broker and on real Kafka."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import time
from typing import Any

import pytest

from aiokproto.codec.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from aiokproto.codec.messages.sasl_handshake import SaslHandshakeRequest
from aiokproto.error_codes import ErrorCode
from tests.behaviour.requests_by_api import (
    OK,
    errors,
)
from tests.behaviour.secured import Secured, as_user
from tests.behaviour.waiting import until
from tests.broker.secure import (
    ScramClient,
    authenticate,
    plain,
    unsecured,
)
from tests.broker.wire import connect


@pytest.mark.parametrize(("mechanism", "digest"), [("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")])
async def test_a_user_created_by_request_logs_in_by_scram(
    secured: Secured, user: str, mechanism: str, digest: str
) -> None:
    number = 1 if digest == "sha256" else 2
    salt = b"some salt"
    new = ScramCredentialUpsertion(
        name=user,
        mechanism=number,
        iterations=4096,
        salt=salt,
        salted_password=hashlib.pbkdf2_hmac(digest, b"secret", salt, 4096),
    )
    async with as_user(secured, "admin") as admin:
        made = await admin.ask(AlterUserScramCredentialsRequest(deletions=[], upsertions=[new]))
        assert not errors(made)
        request = DescribeUserScramCredentialsRequest(users=[UserName(name=user)])
        known = await until(lambda: admin.ask(request), lambda response: not errors(response))
        (info,) = known.results[0].credential_infos
        assert (info.mechanism, info.iterations) == (number, 4096)
        # A real broker describes a user a little before it accepts the login.
        last = await until(
            lambda: log_in(secured, user, "secret", mechanism, digest), lambda last: last.error_code == OK
        )
        assert last.error_code == OK
        refused = await log_in(secured, user, "guess", mechanism, digest)
        assert refused.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert refused.error_message == (
            f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
        )
        gone = ScramCredentialDeletion(name=user, mechanism=number)
        assert not errors(await admin.ask(AlterUserScramCredentialsRequest(deletions=[gone], upsertions=[])))
        found = await until(lambda: admin.ask(request), lambda response: bool(errors(response)))
        assert errors(found) == {ErrorCode.RESOURCE_NOT_FOUND}


async def log_in(secured: Secured, user: str, password: str, mechanism: str, digest: str) -> SaslAuthenticateResponse:
    """The last response of the exchange."""
    client = ScramClient(user, password, digest)
    async with connect(secured) as wire:
        response = await authenticate(wire, mechanism, client.first())
        if response.error_code == OK:
            response = await wire.ask(SaslAuthenticateRequest(auth_bytes=client.final(bytes(response.auth_bytes))))
            if response.error_code == OK:
                assert bytes(response.auth_bytes) == b"v=" + base64.b64encode(client.server_signature)
                return response
        assert await wire.closed()
        return response


def upsertion(**changes: Any) -> ScramCredentialUpsertion:
    values = {"name": "dora", "mechanism": 1, "iterations": 4096, "salt": b"salt", "salted_password": b"salted"}
    return ScramCredentialUpsertion(**{**values, **changes})


@pytest.mark.parametrize(
    ("deletions", "upsertions", "expected"),
    [
        ([], [upsertion(iterations=4095)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([], [upsertion(iterations=16385)], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([], [upsertion(name="")], ErrorCode.UNACCEPTABLE_CREDENTIAL),
        ([], [upsertion(mechanism=0)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([], [upsertion(mechanism=3)], ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        ([], [upsertion(), upsertion(mechanism=2)], ErrorCode.DUPLICATE_RESOURCE),
        ([ScramCredentialDeletion(name="dora", mechanism=1)], [], ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
async def test_invalid_scram_credentials_are_refused(
    secured: Secured,
    deletions: list[ScramCredentialDeletion],
    upsertions: list[ScramCredentialUpsertion],
    expected: ErrorCode,
) -> None:
    async with as_user(secured, "admin") as admin:
        response = await admin.ask(AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions))
        assert errors(response) == {expected}
        assert len(response.results) == 1


async def test_oauthbearer(secured: Secured) -> None:
    async with connect(secured) as wire:
        response = await authenticate(wire, "OAUTHBEARER", unsecured("alice"))
        assert response.error_code == OK
        assert 0 < response.session_lifetime_ms <= 3_600_000
        assert not errors(await wire.ask(ApiVersionsRequest(client_software_name="t", client_software_version="1"), 3))


async def test_an_expired_token_is_refused_in_two_steps(secured: Secured) -> None:
    async with connect(secured) as wire:
        response = await authenticate(wire, "OAUTHBEARER", unsecured("alice", seconds=-1))
        assert response.error_code == OK
        assert bytes(response.auth_bytes) == b'{"status":"invalid_token"}'
        last = await wire.ask(SaslAuthenticateRequest(auth_bytes=b"\x01"))
        assert last.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert await wire.closed()


@pytest.mark.parametrize(
    ("token", "message"),
    [
        (b"\0alice\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0nobody\0x", "Authentication failed: Invalid username or password"),
        (b"\0\0x", "Authentication failed: username not specified"),
        (b"\0alice\0", "Authentication failed: password not specified"),
        (b"bob\0alice\0alice-secret", "Authentication failed: Client requested an authorization id that is different"),
        (b"alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"a\0b\0c\0d\0e", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
async def test_a_plain_token_that_is_refused(secured: Secured, token: bytes, message: str) -> None:
    async with connect(secured) as wire:
        response = await authenticate(wire, "PLAIN", token)
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert (response.error_message or "").startswith(message)
        assert await wire.closed()


async def test_raw_tokens_follow_a_handshake_of_v0(secured: Secured) -> None:
    async with connect(secured) as wire:
        assert (await wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0)).error_code == OK
        token = plain("alice")
        wire.writer.write(len(token).to_bytes(4, "big") + token)
        assert await wire.frame() == b""
        assert not errors(await wire.ask(ApiVersionsRequest(), 0))


async def test_the_refusal_of_an_unknown_mechanism_lists_the_enabled_ones(secured: Secured) -> None:
    async with connect(secured) as wire:
        response = await wire.ask(SaslHandshakeRequest(mechanism="GSSAPI"))
        assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert set(response.mechanisms) == {"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"}
        assert await wire.closed()


async def test_a_request_before_authentication_closes_the_connection(secured: Secured) -> None:
    async with connect(secured) as wire:
        wire.send(MetadataRequest(topics=None), 9)
        assert await wire.closed()


async def test_api_versions_is_answered_once_before_authentication(secured: Secured) -> None:
    versions = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    async with connect(secured) as wire:
        assert (await wire.ask(versions, 3)).error_code == OK
        wire.send(versions, 3)
        assert await wire.closed()


async def test_another_request_during_authentication(secured: Secured) -> None:
    async with connect(secured) as wire:
        assert (await wire.ask(SaslHandshakeRequest(mechanism="PLAIN"))).error_code == OK
        response = await wire.ask(FindCoordinatorRequest(key="g"), 3)
        assert response.error_code == ErrorCode.ILLEGAL_SASL_STATE
        assert await wire.closed()


async def test_authenticating_twice(secured: Secured) -> None:
    async with as_user(secured, "alice") as wire:
        again = await wire.ask(SaslAuthenticateRequest(auth_bytes=plain("alice")))
        assert again.error_code == ErrorCode.ILLEGAL_SASL_STATE
        begun = clocks()
        assert (await authenticate(wire, "PLAIN", plain("alice"))).error_code == OK
        # It must not succeed twice in a second. A slow machine may take longer, and tries again.
        next_begun = clocks()
        while (soon := await wire.ask(SaslHandshakeRequest(mechanism="PLAIN"))).error_code == OK:
            assert any(now - then >= 1 for now, then in zip(clocks(), begun, strict=True))
            assert (await wire.ask(SaslAuthenticateRequest(auth_bytes=plain("alice")))).error_code == OK
            begun, next_begun = next_begun, clocks()
        assert soon.error_code == ErrorCode.ILLEGAL_SASL_STATE


def clocks() -> tuple[float, float]:
    """The current time of a real broker, and of one on this loop."""
    return time.monotonic(), asyncio.get_running_loop().time()


async def test_reauthentication_cannot_change_the_user(secured: Secured) -> None:
    async with as_user(secured, "alice") as wire:
        response = await authenticate(wire, "PLAIN", plain("admin"))
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert (response.error_message or "").startswith("Cannot change principals during re-authentication")
        assert await wire.closed()
