"""Time slices, so that long work in the event loop lets other tasks run in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiokproto.runtime import current

LONG = 0.002
"""Seconds of work after which the next :meth:`TimeSlice.pause` lets other tasks run."""

TOO_LONG = 2 * LONG
"""Seconds of work after which :meth:`TimeSlice.is_over` is true, so that work that can't pause ends early."""


class TimeSlice:
    """Measures how long the event loop's thread has worked since other tasks could run.

    It measures the thread's CPU time, which stands still while the thread waits or has no core. On a busy machine, wall
    time would end every slice at once.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or current().cpu_time
        self._began = self._clock()

    def is_over(self) -> bool:
        """Return whether to start no more work."""
        return not self._within(TOO_LONG)

    async def pause(self) -> None:
        """Let other tasks run if the slice is used up. A cancellation doesn't affect the slice."""
        if not self._within(LONG):
            await asyncio.sleep(0)
            # Read the clock again. The time of other tasks doesn't count.
            self._began = self._clock()

    def _within(self, seconds: float) -> bool:
        # It's negative if the slice started in another thread, because each thread has its own CPU clock.
        return 0 <= self._clock() - self._began < seconds
