"""Work at a fixed rate, as most programs do it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

TICK = 0.001
AT_ONCE = 50
"""Messages between two turns of the event loop: pacing itself must not keep the loop busy."""


async def pace(messages: int, rate: float) -> AsyncIterator[int]:
    """How many messages are due now, again and again, until ``messages`` at ``rate`` per second have been."""
    started, done = time.perf_counter(), 0
    while done < messages:
        due = min(messages, int((time.perf_counter() - started) * rate)) - done
        if due > 0:
            yield (now := min(due, AT_ONCE))
            done += now
        # Late messages are caught up, with turns for other tasks in between.
        await asyncio.sleep(0 if due > AT_ONCE else TICK)
