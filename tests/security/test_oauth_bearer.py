"""OAUTHBEARER: what is sent, and what the broker's answers mean."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.broker.security import oauthbearer as broker
from aiokproto.broker.security.oauthbearer import OAuthBearerSaslServer
from aiokproto.broker.security.sasl_server import AuthenticatedUser, AuthenticationFailed
from aiokproto.errors import AuthenticationError, BrokerConnectionError, ConfigurationError
from aiokproto.security import OAuthBearer, Token, UnsecuredToken
from aiokproto.security.mechanism import ExplainedExchange


async def sent(mechanism: OAuthBearer) -> bytes:
    return await mechanism.exchange("broker").start()


async def test_the_example_of_the_rfc() -> None:
    """RFC 7628 §4.1, with a name to act as, and values for the broker."""
    mechanism = OAuthBearer(
        "vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==",
        extensions={"host": "server.example.com", "port": "143"},
        authorization_id="user@example.com",
    )
    assert await sent(mechanism) == (
        b"n,a=user@example.com,\x01auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01"
        b"host=server.example.com\x01port=143\x01\x01"
    )


@pytest.mark.parametrize(
    ("name", "escaped"), [("a=b", b"a=3Db"), ("a,b", b"a=2Cb"), ("=2C", b"=3D2C"), ("ä", "ä".encode())]
)
async def test_characters_that_separate_are_escaped(name: str, escaped: bytes) -> None:
    assert await sent(OAuthBearer("t", authorization_id=name)) == b"n,a=" + escaped + b",\x01auth=Bearer t\x01\x01"


@given(
    token=st.from_regex(r"[-_~+/.a-zA-Z0-9]+=*", fullmatch=True),
    extensions=st.dictionaries(
        st.from_regex(r"[A-Za-z]+", fullmatch=True).filter(lambda key: key.lower() != "auth"),
        st.from_regex(r"[\x21-\x7e \t\r\n]+", fullmatch=True),
        max_size=3,
    ),
)
async def test_the_broker_reads_what_the_client_writes(token: str, extensions: dict[str, str]) -> None:
    seen: list[str] = []

    def validate(text: str) -> broker.Token:
        seen.append(text)
        return broker.Token("alice", 5)

    server = OAuthBearerSaslServer(validate)
    exchange = OAuthBearer(token, extensions=extensions).exchange("broker")
    assert await exchange.respond(server.step(await exchange.start())) is None
    assert seen == [token]
    assert server.authenticated_user == AuthenticatedUser("alice", 5)


@pytest.mark.parametrize("key", ["", "auth", "AUTH", "a1", "a-b", "ä", "a\x01b"])
def test_extensions_have_names_of_letters(key: str) -> None:
    with pytest.raises(ConfigurationError, match="expected a name of letters"):
        OAuthBearer("t", extensions={key: "value"})


@pytest.mark.parametrize("value", ["", "s3cret\x01", "s3cretä", 5])
def test_values_of_extensions_are_printable_and_not_shown(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="the extension 'key': its value is empty or not printable") as raised:
        OAuthBearer("t", extensions={"key": value})
    assert "s3cret" not in str(raised.value)


async def test_extensions_come_with_the_token_too() -> None:
    token = Token("t", time.time() + 60, {"pool": "b", "new": "c"})
    assert await sent(OAuthBearer(lambda: token, extensions={"pool": "a", "old": "d"})) == (
        b"n,,\x01auth=Bearer t\x01pool=b\x01old=d\x01new=c\x01\x01"
    )
    with pytest.raises(ConfigurationError, match="'auth'"):
        await sent(OAuthBearer(lambda: token._replace(extensions={"auth": "Bearer x"})))


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_names_to_act_as_that_cannot_be_sent(name: str) -> None:
    with pytest.raises(ConfigurationError, match="authorization_id"):
        OAuthBearer("t", authorization_id=name)


@pytest.mark.parametrize(
    ("challenge", "text"),
    [
        (b'{"status":"invalid_token"}', "status invalid_token"),
        (
            b'{"status":"insufficient_scope", "scope":"read write", "openid-configuration":"https://i/.well-known"}',
            "status insufficient_scope, scope read write, openid-configuration https://i/.well-known",
        ),
        (b'{"other":"x"}', '{"other":"x"}'),
        (b'{"status":5}', "status 5"),
        (b"no json\n", "no json?"),
        (b"[" * 100_000, "[" * 200),
        (b"\xff" * 300, "\ufffd" * 200),
        (b'{"status":"' + b"x" * 5000 + b'"}', "status " + "x" * 200),
    ],
)
async def test_a_rejected_token_is_acknowledged_and_explained(challenge: bytes, text: str) -> None:
    exchange = OAuthBearer("t").exchange("broker")
    await exchange.start()
    assert await exchange.respond(challenge) == b"\x01"
    assert isinstance(exchange, ExplainedExchange)
    assert exchange.explain("what the response says") == text


@pytest.mark.parametrize("last", [b"", b"{}"])
async def test_a_broker_that_continues_after_its_rejection(last: bytes) -> None:
    exchange = OAuthBearer("t").exchange("broker")
    await exchange.start()
    await exchange.respond(b'{"status":"invalid_token"}')
    with pytest.raises(AuthenticationError, match=r"rejected the token \(status invalid_token\), and then continued"):
        await exchange.respond(last)


async def test_another_failure_is_explained_by_its_response() -> None:
    exchange = OAuthBearer("t").exchange("broker")
    assert isinstance(exchange, ExplainedExchange)
    assert (exchange.explain("no such user"), exchange.explain(None)) == ("no such user", "without a reason")


async def test_an_unsecured_token() -> None:
    mechanism = OAuthBearer(UnsecuredToken("bob", claims={"scope": ["a", "b"]}))
    server = OAuthBearerSaslServer(broker.unsecured_validator(lambda: time.time_ns() // 1_000_000 + 1))
    exchange = mechanism.exchange("broker")
    assert await exchange.respond(server.step(await exchange.start())) is None
    assert server.authenticated_user is not None
    assert server.authenticated_user.user == "bob"


async def test_an_embedded_broker_rejects_after_the_acknowledgement() -> None:
    server = OAuthBearerSaslServer(broker.unsecured_validator(lambda: 0))
    exchange = OAuthBearer("not.a.token").exchange("broker")
    answer = await exchange.respond(server.step(await exchange.start()))
    assert answer is not None
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        server.step(answer)


@pytest.mark.parametrize("arguments", [{"principal": ""}, {"principal": "a", "claims": {"exp": 5}}])
def test_unsecured_tokens_that_cannot_be_made(arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="unsecured token"):
        UnsecuredToken(**arguments)


async def test_a_file_is_read_for_each_connection(tmp_path: Path) -> None:
    file = tmp_path / "token"
    mechanism = OAuthBearer(file)
    with pytest.raises(BrokerConnectionError, match="sasl_oauth_token cannot be read: FileNotFoundError"):
        await sent(mechanism)
    for value in ("first", "second"):
        file.write_text(f"{value}\n")
        assert await sent(mechanism) == b"n,,\x01auth=Bearer " + value.encode() + b"\x01\x01"
