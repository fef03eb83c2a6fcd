"""A cache of tokens (KIP-255): fetched once for all connections, and kept until shortly before they expire.

There's no background task that renews tokens. A connection that authenticates, or renews its session, gets its token
from the cache, which fetches a new one when it's due. So the cache doesn't need to be closed, and a client without
connections doesn't fetch tokens.

    no token, or expired ── get ──> one fetch for all callers; if it fails, so do all calls within a second
    before the refresh time ── get ──> the token
    after the refresh time, or ── get ──> one fetch; if it fails, or takes too long, the token that is still valid
    for a session that ends with the token

**Waiters share a fetch.** It runs in a separate task, so if one waiter is cancelled because its connection attempt has
ended, the fetch goes on for the other waiters. When the last waiter leaves, the fetch is cancelled.
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

_FETCH_TIMEOUT = 5.0
"""Maximum wait for a new token while the old one is valid (s): half the default time limit for a connection."""

_FAILURE_PAUSE = 1.0
"""Minimum time between a failed fetch and the next (s). Without it, a client that connects to many brokers would fetch
again and again without a pause."""

_RETRY_PAUSE = 10.0
"""Minimum time between attempts to replace a token that is still valid (s): Java's delay after a failed login."""

logger = logging.getLogger("aiokproto.security")


class RefreshWindow(NamedTuple):
    """When to replace a token: the options ``sasl.login.refresh.*`` of the Java client.

    Attributes:
        factor: The fraction of the token's lifetime after which it's replaced.
        jitter: The maximum random fraction that is added to ``factor``, so that clients don't all replace their tokens
            at once.
        min_period: Minimum time between two replacements (s).
        buffer: A token is replaced at least this long before its expiry (s). This and ``min_period`` are ignored for
            tokens whose lifetime is shorter than the sum of both.
    """

    factor: float = 0.8
    jitter: float = 0.05
    min_period: float = 60.0
    buffer: float = 300.0

    def refresh_at(self, now: float, expires_at: float) -> float:
        """Return when to replace a token that was received at ``now``. All times are in seconds since the epoch."""
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
        reader: Reads tokens from their source.
        window: When to replace them.
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
            replaced: The token of a session that is being renewed, which calls for a newer token; None for a new
                session.

        Raises:
            KafkaError: See :meth:`TokenReader.read`.
        """
        # Don't cache the token of a file: the file is cheap to read and always contains the newest token.
        if not self._reader.callable:
            return await self._reader.read()
        held = self._valid()
        if held is None:
            return await self._fetched()
        # guard: a session is renewed with a newer token -> _now() < self._refresh_at
        if _now() < (self._retry_at if held is replaced else self._refresh_at):
            return held
        try:
            async with timeout(_FETCH_TIMEOUT):
                return await self._fetched()
        except (KafkaError, asyncio.TimeoutError) as error:
            if self._valid() is not held:
                # The token has expired by now, or another connection has replaced it.
                return await self.get(replaced)
            self._refresh_at = self._retry_at = _now() + _RETRY_PAUSE
            why = error if isinstance(error, KafkaError) else f"no token in {_FETCH_TIMEOUT:g} s"
            logger.warning("the OAuth token could not be replaced, and is used until it expires: %s", why)
            # guard: a token that cannot be replaced is used until it expires -> raise
            return held

    def discard(self, token: Token) -> None:
        """Forget a token that the broker has rejected."""
        # guard: a rejected token is not used again
        if self._token is token:
            self._token = None

    def _valid(self) -> Token | None:
        token = self._token
        # guard: an expired token is not used -> token if token is not None and token.expires_at is not None else None
        return token if token is not None and token.expires_at is not None and _now() < token.expires_at else None

    async def _fetched(self) -> Token:
        loop = asyncio.get_running_loop()
        # Also compare with 0: the clock may have been set back.
        if self._failure is not None and 0 <= _now() - self._failure[0] < _FAILURE_PAUSE:
            raise copied(self._failure[1])
        fetch = self._fetch
        # Compare the loops: a mechanism can serve clients in several event loops.
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
        # Don't cache a token if its expiry is unknown. Each connection then requests its own.
        self._token = None
        if token.expires_at is not None:
            self._token, self._refresh_at = token, self._window.refresh_at(_now(), token.expires_at)
        return token

    def __getstate__(self) -> dict[str, Any]:
        # Don't pickle the token, which comes from a function.
        return {**self.__dict__, "_fetch": None, "_token": None, "_failure": None}


def _now() -> float:
    return current().milliseconds() / 1000
