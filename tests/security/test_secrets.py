"""Secrets: where they come from, and that nothing shows them."""

from __future__ import annotations

import pickle
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from aiokproto.errors import BrokerConnectionError, ConfigurationError
from aiokproto.security import Plain, Scram, Secret
from aiokproto.security.secret import _NO_UNICODE, MAX_FILE_SIZE


async def later() -> str:
    return "from a coroutine"


@pytest.mark.parametrize(
    ("source", "text"), [("text", "text"), (lambda: "called", "called"), (later, "from a coroutine")]
)
async def test_where_a_secret_comes_from(source: Any, text: str) -> None:
    assert await Secret("sasl_password", source).read() == text


@pytest.mark.parametrize(("written", "text"), [("a\n", "a"), ("a\r\n", "a"), ("a\n\n", "a\n"), (" a ", " a ")])
async def test_a_file_without_its_last_line_break(tmp_path: Path, written: str, text: str) -> None:
    file = tmp_path / "password"
    file.write_bytes(written.encode())
    secret = Secret("sasl_password", file)
    assert await secret.read() == text
    # The secret is rotated, and the next authentication uses the new one.
    file.write_text("new")
    assert await secret.read() == "new"


@pytest.mark.parametrize("source", [None, 5, b"bytes", "", ["a"], "s3cret\udcff"])
def test_an_invalid_source(source: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"^sasl_password"):
        Secret("sasl_password", source)


def failing() -> str:
    raise OSError("the vault is sealed")


async def failing_later() -> str:
    raise OSError("the vault is sealed")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (failing, "sasl_password cannot be read: OSError (its text is left out, as it may have a secret)"),
        (failing_later, "sasl_password cannot be read: OSError (its text is left out, as it may have a secret)"),
        (lambda: b"s3cret", "sasl_password gave bytes: expected text"),
        (lambda: None, "sasl_password gave NoneType: expected text"),
        (lambda: "", "sasl_password gave empty text: expected text"),
        (
            lambda: "s3cret\udcff",
            f"sasl_password: {_NO_UNICODE}",
        ),
    ],
)
async def test_a_function_that_gives_no_text(source: Callable[[], str | Awaitable[str]], text: str) -> None:
    with pytest.raises(BrokerConnectionError) as raised:
        await Secret("sasl_password", source).read()
    assert str(raised.value) == text


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (None, "No such file"),
        (b"\xffs3cret", "it is not UTF-8"),
        (b"", "gave empty text"),
        (b"x" * (MAX_FILE_SIZE + 1), "is longer than"),
    ],
)
async def test_a_file_that_gives_no_text(tmp_path: Path, written: bytes | None, text: str) -> None:
    file = tmp_path / "password"
    if written is not None:
        file.write_bytes(written)
    with pytest.raises(BrokerConnectionError, match=text) as raised:
        await Secret("sasl_password", file).read()
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize(
    "made",
    [
        Secret("sasl_password", "s3cret"),
        Plain("alice", "s3cret"),
        Scram("SCRAM-SHA-256", "alice", "s3cret"),
        Plain("alice", "s3cret").exchange("broker"),
        Scram("SCRAM-SHA-512", "alice", "s3cret").exchange("broker"),
    ],
)
def test_no_representation_shows_a_secret(made: object) -> None:
    assert "s3cret" not in f"{made!r} {made}"


def test_mechanisms_reach_other_processes() -> None:
    assert repr(pickle.loads(pickle.dumps(Plain("alice", "s3cret")))) == "Plain()"
