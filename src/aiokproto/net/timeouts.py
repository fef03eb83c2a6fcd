"""Deadlines: ``asyncio.timeout_at`` where Python has it, its back-port else."""

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
    """Raise ``DeadlineError(describe())`` if the body is not done at ``at`` (the loop's time).

    ``describe`` is called only then, and can say how far it got.
    """
    scope = timeout_at(at)
    try:
        async with scope:
            yield
    except asyncio.TimeoutError as error:
        # A timeout of the body's own is not ours to name.
        if not _expired(scope):
            raise
        raise DeadlineError(describe()) from error
