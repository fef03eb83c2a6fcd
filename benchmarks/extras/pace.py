"""Work at a fixed rate, as most programs do it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

TICK = 0.001
AT_ONCE = 50
"""Messages between two looks at the event loop: the pace itself must not be what keeps the loop busy."""


async def pace(messages: int, rate: float) -> AsyncIterator[int]:
    """How many messages are due now, again and again, until ``messages`` at ``rate`` per second have been."""
    started, done = time.perf_counter(), 0
    while done < messages:
        due = min(messages, int((time.perf_counter() - started) * rate)) - done
        if due > 0:
            yield (now := min(due, AT_ONCE))
            done += now
        # What is late is made up for, but others have their turn in between.
        await asyncio.sleep(0 if due > AT_ONCE else TICK)
