"""Waiting for what a broker applies a little later than it answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tests.patience import PATIENCE

T = TypeVar("T")


async def until(ask: Callable[[], Awaitable[T]], done: Callable[[T], bool]) -> T:
    """Ask until the answer is what it will be; the last one, if that takes too long."""
    # Not the loop's clock: that of a test may be ahead of the time that a real broker has had.
    end = time.monotonic() + PATIENCE
    while not done(answer := await ask()) and time.monotonic() < end:
        await asyncio.sleep(0)
    return answer
