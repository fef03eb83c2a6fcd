"""SCRAM: RFC 7677's example, both sides against each other, and false brokers."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.security.credentials import ScramCredentials
from aiokproto.broker.security.sasl_server import AuthenticatedUser, AuthenticationFailed
from aiokproto.broker.security.scram import Account, Credential, Mechanism, ScramSaslServer, credential_of
from aiokproto.broker.security.tokens import DelegationTokens
from aiokproto.errors import AuthenticationError, ConfigurationError
from aiokproto.security import Scram, Secret
from aiokproto.security.scram import MAX_ITERATIONS, SaltedPassword, ScramExchange
from tests.broker.secure import KnownCredentials

RFC_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
SERVER_FINAL = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def exchange(username: str = "user", password: str = "pencil", digest: str = "sha256") -> ScramExchange:
    return ScramExchange(
        SaltedPassword(digest),
        Secret("sasl_username", username),
        Secret("sasl_password", password),
        nonce=lambda: RFC_NONCE,
    )


async def test_the_example_of_the_rfc() -> None:
    client = exchange()
    assert await client.start() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert await client.respond(SERVER_FIRST.encode()) == (
        b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    )
    assert await client.respond(SERVER_FINAL.encode()) is None


NAMES = st.text(st.characters(exclude_characters="\0", codec="ascii"), min_size=1, max_size=8)
PASSWORDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)


@pytest.mark.parametrize("mechanism", Mechanism)
@given(username=NAMES, password=PASSWORDS, guess=PASSWORDS)
async def test_both_sides_agree_if_they_know_the_same_password(
    mechanism: Mechanism, username: str, password: str, guess: str
) -> None:
    known = {username: credential_of(mechanism, password)}
    server = ScramSaslServer(mechanism, KnownCredentials(known))
    client = exchange(username, guess, mechanism.digest)
    proof = await client.respond(server.step(await client.start()))
    assert proof is not None
    if guess == password:
        assert await client.respond(server.step(proof)) is None
        assert server.authenticated_user == AuthenticatedUser(username)
    else:
        with pytest.raises(AuthenticationFailed):
            server.step(proof)


async def test_a_delegation_token_is_looked_up_as_such() -> None:
    class NoUser(ScramCredentials):
        def find(self, user: str, mechanism: Mechanism) -> Credential | None:
            raise AssertionError("not a user")

    class Tokens(DelegationTokens):
        def account(self, token_id: str, mechanism: Mechanism) -> Account | None:
            return tokens.get(token_id)

    credential = credential_of(Mechanism.SCRAM_SHA_256, "the hmac")
    tokens = {"token-1": Account(credential, AuthenticatedUser("alice", by_token=True))}
    server = ScramSaslServer(
        Mechanism.SCRAM_SHA_256, NoUser({}), Tokens(BrokerOptions({}), lambda: 0, cast("Any", None))
    )
    client = Scram("SCRAM-SHA-256", "token-1", "the hmac", delegation_token=True).exchange("broker")
    proof = await client.respond(server.step(await client.start()))
    assert proof is not None
    assert await client.respond(server.step(proof)) is None
    assert server.authenticated_user == AuthenticatedUser("alice", by_token=True)


def changed(**parts: str) -> str:
    values = {"r": RFC_NONCE + "more", "s": "W22ZaJ0SNY7soEsUEjb6gQ==", "i": "4096", **parts}
    return ",".join(f"{name}={value}" for name, value in values.items() if value is not None)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"", "malformed"),
        (b"\xff\xfe", "malformed"),
        (b"e=no-resources", "malformed"),
        (f"m=future,{changed()}".encode(), "malformed"),
        (changed(i="abc").encode(), "malformed"),
        (changed(i="9" * 30).encode(), "malformed"),
        (changed(s="").encode(), "malformed"),
        (changed(s="abc").encode(), "base64"),
        (changed(r=RFC_NONCE).encode(), "does not extend"),
        (changed(r="other" + RFC_NONCE).encode(), "does not extend"),
        (changed(i="4095").encode(), "4095 SCRAM iterations: expected 4096 to"),
        (changed(i="0").encode(), "0 SCRAM iterations"),
        (changed(i=str(MAX_ITERATIONS + 1)).encode(), f"{MAX_ITERATIONS + 1} SCRAM iterations"),
    ],
)
async def test_a_first_message_that_no_broker_sends(message: bytes, text: str) -> None:
    client = exchange()
    await client.start()
    with pytest.raises(AuthenticationError, match=text):
        await client.respond(message)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"", "malformed"),
        (b"v=", "malformed"),
        (b"v=abc", "base64"),
        (b"v=" + base64.b64encode(bytes(32)), "does not know the password"),
        (b"v=" + base64.b64encode(bytes(31)), "does not know the password"),
        (b"e=invalid-proof", "ended the SCRAM exchange: invalid-proof"),
    ],
)
async def test_a_broker_that_does_not_prove_itself(message: bytes, text: str) -> None:
    client = exchange()
    await client.start()
    await client.respond(SERVER_FIRST.encode())
    with pytest.raises(AuthenticationError, match=text):
        await client.respond(message)


async def test_connections_share_the_salted_password(monkeypatch: pytest.MonkeyPatch) -> None:
    salted = SaltedPassword("sha256")
    first = await salted.of("pencil", b"salt", 4096)

    def never(*args: object) -> bytes:
        raise AssertionError("salted again")

    monkeypatch.setattr("aiokproto.security.scram.hashlib.pbkdf2_hmac", never)
    assert await salted.of("pencil", b"salt", 4096) == first
    for other in (("pen", b"salt", 4096), ("pencil", b"pepper", 4096), ("pencil", b"salt", 4097)):
        with pytest.raises(AssertionError, match="salted again"):
            await salted.of(*other)


@pytest.mark.parametrize(
    "make",
    [lambda: Scram("SCRAM-SHA-1", "a", "b"), lambda: Scram("SCRAM-SHA-256", "", "b"), lambda: Scram("PLAIN", "a", "b")],
)
def test_arguments_that_make_no_mechanism(make: Callable[[], Scram]) -> None:
    with pytest.raises(ConfigurationError):
        make()


async def test_a_null_character_in_the_name() -> None:
    with pytest.raises(ConfigurationError, match="null character"):
        await exchange("a\0b").start()
