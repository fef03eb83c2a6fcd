"""Tokens are kept until shortly before they expire (KIP-255), and fetched once for all connections that need one.

There is no task that renews tokens: a connection that authenticates, or whose session is renewed, asks for one, and
finds that the time has come. So nothing has to be closed, and a client without connections asks nobody.

    no token, or expired ── get ──> all wait for one fetch; its failure is theirs, and of those who ask within a second
    before the refresh time ── get ──> the token
    after the refresh time, or ── get ──> one fetch; if it fails, or takes too long, the token that is still valid
    for a session that ends with the token

**The fetch belongs to those who wait for it.** It runs in a task of its own, so that the cancellation of one waiter,
whose connection attempt has ended, does not end it for the others. When the last waiter is gone, it is cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any, NamedTuple

from aiokproto.errors import KafkaError, copied
from aiokproto.runtime import create_task, current, uniform
from aiokproto.runtime.timeouts import timeout
from aiokproto.security.token import Token, TokenReader
from aiokproto.security.tracebacks import without_frames

_PATIENCE = 5.0
"""Longest wait for a new token while the old one is valid (s): half of what a connection may take by default."""

_PAUSE = 1.0
"""Shortest time between a failed fetch and the next (s): the connections of many clients to many brokers are tried
again at any time, and would ask without a pause."""

_RETRY = 10.0
"""Shortest time between attempts to replace a token that is still valid (s). Java's delay after a failed login."""

logger = logging.getLogger("aiokproto.security")


class RefreshWindow(NamedTuple):
    """When a token is replaced: the options ``sasl.login.refresh.*`` of the Java client.

    Attributes:
        factor: The part of the token's lifetime after which it is replaced.
        jitter: The largest random part added to it, so that many clients do not do it together.
        min_period: Shortest time between two replacements (s).
        buffer: Time before expiry by which it is replaced at the latest (s). This and ``min_period`` are ignored for
            tokens that do not live as long as both together.
    """

    factor: float = 0.8
    jitter: float = 0.05
    min_period: float = 60.0
    buffer: float = 300.0

    def refresh_at(self, now: float, expires_at: float) -> float:
        """Return when to replace a token that was received now. All times are in seconds since the epoch."""
        remaining = expires_at - now
        proposed = now + remaining * (self.factor + uniform(0, self.jitter))
        if self.min_period + self.buffer > remaining:
            return proposed
        return max(min(proposed, expires_at - self.buffer), now + self.min_period)


class _Fetch:
    def __init__(self, task: asyncio.Task[Token]) -> None:
        self.task = task
        self.loop = asyncio.get_running_loop()
        self.waiters = 0


class TokenCache:
    """The token of a client, for all its connections.

    Args:
        reader: Where tokens come from.
        window: When they are replaced.
    """

    def __init__(self, reader: TokenReader, window: RefreshWindow) -> None:
        self._reader = reader
        self._window = window
        self._token: Token | None = None
        self._refresh_at = self._retry_at = 0.0
        self._fetch: _Fetch | None = None
        self._failure: tuple[float, KafkaError] | None = None

    async def get(self, replaced: Token | None = None) -> Token:
        """Return a token that has not expired.

        Args:
            replaced: The token that a newer one should replace, as a session ends with it; None for a new session.

        Raises:
            KafkaError: What :meth:`TokenReader.read` raises.
        """
        # The reader's files cost nothing, and have the newest token.
        if not self._reader.callable:
            return await self._reader.read()
        held = self._valid()
        if held is None:
            return await self._fetched()
        # guard: a session is renewed with a newer token -> _now() < self._refresh_at
        if _now() < (self._retry_at if held is replaced else self._refresh_at):
            return held
        try:
            async with timeout(_PATIENCE):
                return await self._fetched()
        except (KafkaError, asyncio.TimeoutError) as error:
            if self._valid() is not held:
                # It expired meanwhile, or another connection has replaced it.
                return await self.get(replaced)
            self._refresh_at = self._retry_at = _now() + _RETRY
            why = error if isinstance(error, KafkaError) else f"no token in {_PATIENCE:g} s"
            logger.warning("the OAuth token could not be replaced, and is used until it expires: %s", why)
            # guard: a token that cannot be replaced is used until it expires -> raise
            return held

    def discard(self, token: Token) -> None:
        """Forget a token: the broker has rejected it."""
        # guard: a rejected token is not used again
        if self._token is token:
            self._token = None

    def _valid(self) -> Token | None:
        token = self._token
        # guard: an expired token is not used -> token if token is not None and token.expires_at is not None else None
        return token if token is not None and token.expires_at is not None and _now() < token.expires_at else None

    async def _fetched(self) -> Token:
        loop = asyncio.get_running_loop()
        # Not only less than: the clock can be set back.
        if self._failure is not None and 0 <= _now() - self._failure[0] < _PAUSE:
            raise copied(self._failure[1])
        fetch = self._fetch
        # A mechanism can serve clients of several event loops.
        # guard: connections that need a token share one request -> True
        if fetch is None or fetch.loop is not loop or fetch.task.done():
            fetch = self._fetch = _Fetch(create_task(self._read()))
        fetch.waiters += 1
        try:
            return await asyncio.shield(fetch.task)
        finally:
            fetch.waiters -= 1
            # guard: a waiter that leaves does not end the request that others wait for -> True
            if not fetch.waiters:
                fetch.task.cancel()
                if self._fetch is fetch:
                    self._fetch = None

    async def _read(self) -> Token:
        try:
            token = await self._reader.read()
        except KafkaError as error:
            self._failure = _now(), without_frames(error)
            raise
        self._failure = None
        # One whose expiry is unknown is requested again, by each connection.
        self._token = None
        if token.expires_at is not None:
            self._token, self._refresh_at = token, self._window.refresh_at(_now(), token.expires_at)
        return token

    def __getstate__(self) -> dict[str, Any]:
        # What a function has given stays in this process.
        return {**self.__dict__, "_fetch": None, "_token": None, "_failure": None}


def _now() -> float:
    return current().wall() / 1000
