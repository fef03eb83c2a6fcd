"""Deadlines: ``asyncio.timeout_at``, or its back-port ``async_timeout`` on Python 3.10."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiokproto.errors import DeadlineError

if sys.version_info >= (3, 11):
    from asyncio import Timeout, timeout_at

    def _expired(scope: Timeout) -> bool:
        return scope.expired()
else:
    from async_timeout import Timeout, timeout_at

    def _expired(scope: Timeout) -> bool:
        return scope.expired


__all__ = ["deadline", "timeout_at"]


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
        if not _expired(scope):
            raise
        raise DeadlineError(describe()) from error
