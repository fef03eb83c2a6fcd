"""Waiting for changes that a broker applies a little after it has responded."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tests.patience import PATIENCE

T = TypeVar("T")


async def until(ask: Callable[[], Awaitable[T]], done: Callable[[T], bool]) -> T:
    """Repeat a request until ``done`` accepts the response; return the last response after `PATIENCE`."""
    # Not the loop's clock, which a test may have moved ahead of a real broker's.
    end = time.monotonic() + PATIENCE
    while not done(answer := await ask()) and time.monotonic() < end:
        await asyncio.sleep(0)
    return answer
