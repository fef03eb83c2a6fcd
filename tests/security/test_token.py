"""Tokens: valid results of sources, and results that are refused without showing them."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiokproto.errors import AuthenticationError, BrokerConnectionError, ConfigurationError
from aiokproto.security import Token
from aiokproto.security.token import TokenReader, claimed_expiry

# It's far in the future, so that a long run, which collects all tests first, ends before.
LATER = float(int(time.time()) + 86_400)


def web_token(claims: Any) -> str:
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.sig"


async def later() -> tuple[str, float]:
    return "s3cret", LATER


async def read(source: Any) -> Token:
    return await TokenReader("sasl_oauth_token", source).read()


@pytest.mark.parametrize(
    ("source", "token"),
    [
        ("s3cret", Token("s3cret")),
        (lambda: "s3cret", Token("s3cret")),
        (lambda: Token("s3cret", LATER, {"a": "b"}), Token("s3cret", LATER, {"a": "b"})),
        (lambda: ("s3cret", LATER), Token("s3cret", LATER)),
        (later, Token("s3cret", LATER)),
        (lambda: web_token({"exp": LATER}), Token(web_token({"exp": LATER}), LATER)),
        # The source's expiry overrides the claim.
        (lambda: (web_token({"exp": 5}), LATER), Token(web_token({"exp": 5}), LATER)),
    ],
)
async def test_where_tokens_come_from(source: Any, token: Token) -> None:
    assert await read(source) == token


async def test_a_file_and_its_line_break(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(web_token({"exp": LATER}) + "\r\n")
    assert await read(file) == Token(web_token({"exp": LATER}), LATER)


@pytest.mark.parametrize("source", [None, 5, b"bytes", TokenReader])
def test_an_invalid_source(source: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^sasl_oauth_token: expected a function"):
        TokenReader("sasl_oauth_token", source)


def test_a_provider_of_other_clients_has_the_function() -> None:
    class Provider:
        def token(self) -> str:
            return "token"

    source: Any = Provider()
    with pytest.raises(ConfigurationError, match=r"or a token; of a token provider pass the method: provider\.token$"):
        TokenReader("sasl_oauth_token", source)


def failing() -> str:
    raise OSError("the vault is sealed")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (failing, r"sasl_oauth_token cannot be read: OSError \(its text is left out"),
        (lambda: None, "sasl_oauth_token gave NoneType: expected"),
        (lambda: b"s3cret", "sasl_oauth_token gave bytes: expected"),
        (lambda: (), "sasl_oauth_token gave NoneType: expected"),
        (lambda: ("s3cret", LATER, {}, "more"), "sasl_oauth_token gave str: expected"),
        (lambda: "", "sasl_oauth_token: the token is empty"),
        (lambda: "s3cret\x01auth=x", "has characters that a bearer token cannot have"),
        (lambda: "s3cret more", "has characters that a bearer token cannot have"),
        (lambda: "s3=cret", "has characters that a bearer token cannot have"),
        (lambda: ("s3cret", LATER * 1000), r"is no time in seconds since the epoch \(milliseconds\?\)"),
        (lambda: ("s3cret", "soon"), "is no time in seconds"),
        (lambda: ("s3cret", True), "is no time in seconds"),
        (lambda: ("s3cret", float("nan")), "is no time in seconds"),
        (lambda: ("s3cret", 1e9), "expired .* s ago by this machine's clock$"),
        (lambda: ("s3cret", 3600.0), r"expired .* s ago .*\(a lifetime\? The expiry is in seconds since the epoch\)"),
        (web_token({"exp": 5}), "expired .* s ago"),
    ],
)
async def test_an_invalid_token(source: Any, text: str) -> None:
    with pytest.raises(BrokerConnectionError, match=text) as raised:
        await read(source)
    assert "s3" not in str(raised.value)


async def test_what_the_client_itself_raises_is_not_wrapped() -> None:
    error = AuthenticationError("no")

    def source() -> str:
        raise error

    with pytest.raises(AuthenticationError) as raised:
        await read(source)
    assert raised.value is error


@pytest.mark.parametrize(
    "value",
    [
        "opaque",
        "a.b",
        "a.!.c",
        "a.e30.c",
        web_token([]),
        web_token({"exp": "5"}),
        web_token({"exp": True}),
        web_token({"exp": -1}),
        web_token({"exp": 1e300}),
        f"a.{base64.urlsafe_b64encode(b'[' * 100_000).decode()}.c",
        "a.\xff\xfe.c",
    ],
)
def test_tokens_that_do_not_say_when_they_expire(value: str) -> None:
    assert claimed_expiry(value) is None


@pytest.mark.parametrize(
    "make",
    [
        lambda: Token("s3cret", LATER, {"a": "s3cret"}),
        lambda: TokenReader("sasl_oauth_token", "s3cret"),
        lambda: TokenReader("sasl_oauth_token", lambda: "s3cret"),
    ],
)
def test_no_representation_shows_a_token(make: Callable[[], object]) -> None:
    made = make()
    assert "s3cret" not in f"{made!r} {made} {made:}"
