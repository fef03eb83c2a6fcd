"""Waiting for conditions of which no event tells."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiokproto.runtime.timeouts import timeout_at
from tests.timeouts import LONG_TIMEOUT


async def until(condition: Callable[[], object]) -> None:
    """Let the event loop run until the condition holds."""
    async with timeout_at(asyncio.get_running_loop().time() + LONG_TIMEOUT):
        while not condition():
            await asyncio.sleep(0)
