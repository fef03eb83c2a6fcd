"""Bearer tokens, and their sources."""

from __future__ import annotations

import base64
import binascii
import inspect
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from aiokproto.application.calls import failure, without_text
from aiokproto.errors import BrokerConnectionError, ConfigurationError, KafkaError
from aiokproto.runtime import current
from aiokproto.security.secret import Secret

_BEARER = re.compile(r"[-_~+/.a-zA-Z0-9]+=*")
"""The format of tokens in RFC 6750 §2.1, the only one that Kafka's brokers accept."""

_LATEST = 1e11
"""A larger expiry must be in milliseconds: in seconds since the epoch, this is in the year 5138."""

_LONGEST_LIFETIME = 1e8
"""A smaller expiry must be a lifetime: in seconds since the epoch, this is in 1973, when there were no tokens."""


class Token(NamedTuple):
    """A bearer token.

    Attributes:
        value: The token, without ``Bearer``.
        expires_at: When it expires, in seconds since the epoch. By default the claim ``exp``, if the value is a JSON
            Web Token; otherwise None, since it's unknown.
        extensions: Additional values for the broker (KIP-342), which override the extensions of
            :class:`~aiokproto.security.OAuthBearer`. Default None.
    """

    value: str
    expires_at: float | None = None
    extensions: Mapping[str, str] | None = None

    def __repr__(self) -> str:
        return f"Token(expires_at={self.expires_at!r})"


TokenResult: TypeAlias = "str | Token | tuple[str, float]"
"""A token, alone or with its expiry in seconds since the epoch."""

TokenSource: TypeAlias = "str | Path | Callable[[], TokenResult | Awaitable[TokenResult]]"
"""A token, a file that contains it, or a function that returns it."""


class TokenReader:
    """Reads tokens from a source, and rejects those that can't be sent.

    Args:
        option: The option's name, for errors.
        source: Where tokens come from.

    Attributes:
        option: The option's name.

    Raises:
        ConfigurationError: The source is none of these.
    """

    def __init__(self, option: str, source: TokenSource) -> None:
        self.option = option
        self._call = source if callable(source) else None
        # Refuse a class: it can be called like a function, but wouldn't return a token.
        if isinstance(source, type) or not (callable(source) or isinstance(source, str | Path)):
            # aiokafka and kafka-python take such objects.
            provider = "; of a token provider pass the method: provider.token" if hasattr(source, "token") else ""
            raise ConfigurationError(f"{option}: expected a function, a pathlib.Path of a file, or a token{provider}")
        self._secret = None if callable(source) else Secret(option, source)

    @property
    def callable(self) -> bool:
        """Whether the source is a function. Each call of it may cost a request."""
        return self._call is not None

    async def read(self) -> Token:
        """Return a token that has not expired.

        Raises:
            BrokerConnectionError: The function failed, the file can't be read, or the token is malformed or has
                expired. The authentication is retried later, like a failed connection.
            KafkaError: The function raised it.
        """
        return self._checked(await self._read())

    async def _read(self) -> object:
        if self._call is None:
            assert self._secret is not None, "one of the two is set"
            return (await self._secret.read()).strip()
        try:
            found: Any = self._call()
            return await found if inspect.isawaitable(found) else found
        except KafkaError:
            raise
        except BaseException as error:  # noqa: BLE001 - failure() passes on what ends the task
            raised = failure(error, self.option, awaited=True)
            raise BrokerConnectionError(f"{self.option} cannot be read: {without_text(raised)}") from raised

    def _checked(self, found: object) -> Token:
        parts: tuple[Any, ...] = found if isinstance(found, tuple) else (found,)
        value, expires_at, extensions = (*parts, None, None, None)[:3]
        # Leave the value out of errors: it may be the token in another form.
        if not isinstance(value, str) or len(parts) > 3:
            raise BrokerConnectionError(
                f"{self.option} gave {type(value).__name__}: expected a token as text, a Token, or a pair of token"
                " and expiry"
            )
        if not _BEARER.fullmatch(value):
            what = "is empty" if not value else "has characters that a bearer token cannot have"
            raise BrokerConnectionError(f"{self.option}: the token {what}")
        expires_at = self._expiry(value, expires_at)
        now = current().milliseconds() / 1000
        if expires_at is not None and expires_at <= now:
            raise BrokerConnectionError(
                f"{self.option}: the token expired {now - expires_at:.3g} s ago by this machine's clock"
                f"{_lifetime(expires_at)}"
            )
        return Token(value, expires_at, extensions)

    def _expiry(self, value: str, given: object) -> float | None:
        if given is None:
            return claimed_expiry(value)
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given < _LATEST:
            readable = isinstance(given, int | float) and abs(given) < 1e300
            shown = f"{given:g}" if readable else type(given).__name__
            raise BrokerConnectionError(
                f"{self.option}: the expiry ({shown}) is no time in seconds since the epoch (milliseconds?)"
            )
        return given

    def __repr__(self) -> str:
        return f"<{self.option}>" if self._secret is None else repr(self._secret)


def claims_of(value: str) -> Mapping[str, Any]:
    """Return the unverified claims of a JSON Web Token; empty if the value isn't one."""
    parts = value.split(".")
    if len(parts) != 3:
        return {}
    try:
        found = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (binascii.Error, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def claimed_expiry(value: str) -> float | None:
    """Return the expiry that a JSON Web Token claims, in seconds since the epoch, or None if it doesn't."""
    expires_at = claims_of(value).get("exp")
    if isinstance(expires_at, bool) or not isinstance(expires_at, int | float) or not 0 <= expires_at < _LATEST:
        return None
    return expires_at


def _lifetime(expires_at: float) -> str:
    """Return a hint if an expiry looks like a lifetime."""
    return " (a lifetime? The expiry is in seconds since the epoch)" if expires_at < _LONGEST_LIFETIME else ""
