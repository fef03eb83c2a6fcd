"""Deadlines, which raise this library's error, and interruptions of calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiokproto.errors import DeadlineError
from aiokproto.runtime.timeouts import Timeout, timeout_at

__all__ = ["TLS_HANDSHAKE", "Interruptible", "deadline", "timeout_at", "wait_until"]

TLS_HANDSHAKE = 24 * 3600.0
"""What event loops get as the limit of a TLS handshake (s): the deadline of the connection ends it. Their own limit of
a minute would be reported as an end by the peer."""


async def wait_until(event: asyncio.Event, at: float | None) -> None:
    """Wait until an event is set, or until ``at`` (s, the loop's clock); None for as long as it takes.

    Not ``asyncio.wait_for``: before Python 3.12 it swallows a cancellation that comes together with the event, so that
    a task which is cancelled once would never end.
    """
    try:
        async with timeout_at(at):
            await event.wait()
    except asyncio.TimeoutError:
        pass


@asynccontextmanager
async def deadline(at: float, describe: Callable[[], str]) -> AsyncIterator[None]:
    """Raise ``DeadlineError(describe())`` if the body has not ended at ``at`` (s, the loop's clock).

    ``describe`` is called only on expiry, so its text can report the progress made until then.
    """
    scope = timeout_at(at)
    try:
        async with scope:
            yield
    except asyncio.TimeoutError as error:
        # The body can raise TimeoutError itself, for another deadline: that one is re-raised as it is.
        if not scope.expired():
            raise
        raise DeadlineError(describe()) from error


class Interruptible:
    """Lets one call make others raise, wherever they are suspended in :meth:`scope`."""

    def __init__(self) -> None:
        self._scopes: set[Timeout] = set()

    @asynccontextmanager
    async def scope(self, error: Callable[[], Exception]) -> AsyncIterator[None]:
        """Raise ``error()`` if :meth:`interrupt` is called while the body waits."""
        scope = timeout_at(None)
        try:
            async with scope:
                self._scopes.add(scope)
                try:
                    yield
                finally:
                    self._scopes.discard(scope)
        except asyncio.TimeoutError as timeout:
            if not scope.expired():
                raise
            raise error() from timeout.__cause__

    def interrupt(self) -> int:
        """Interrupt all scopes; return how many there were. Their tasks raise the next time they run."""
        scopes, self._scopes = self._scopes, set()
        now = asyncio.get_running_loop().time()
        for scope in scopes:
            scope.reschedule(now)
        return len(scopes)
