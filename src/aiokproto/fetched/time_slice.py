"""Time slices: long work in the event loop lets other tasks run in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiokproto.runtime import current

LONG = 0.002
"""Seconds of work after which the next :meth:`TimeSlice.pause` lets other tasks run."""

TOO_LONG = 2 * LONG
"""Seconds of work after which :meth:`TimeSlice.is_over`: work that cannot pause ends early."""


class TimeSlice:
    """How long the event loop's thread has worked since other tasks could run.

    Measured in the thread's CPU time, which stands still while the thread waits or has no core: on a busy machine wall
    time would end every slice at once.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or current().cpu_time
        self._began = self._clock()

    def is_over(self) -> bool:
        """Whether to start no more work."""
        return not self._within(TOO_LONG)

    async def pause(self) -> None:
        """Let other tasks run if the slice is used up. Cancelling it has no effect on the slice."""
        if not self._within(LONG):
            await asyncio.sleep(0)
            # After the pause: the time of other tasks does not count.
            self._began = self._clock()

    def _within(self, seconds: float) -> bool:
        # Negative if the slice began in another thread: each has a CPU clock of its own.
        return 0 <= self._clock() - self._began < seconds
