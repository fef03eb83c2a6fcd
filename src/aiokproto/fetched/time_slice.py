"""Time slices, which let other tasks run during long work in the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiokproto.runtime import current

LONG = 0.002
"""After this many seconds of work, the next :meth:`TimeSlice.pause` lets other tasks run."""

TOO_LONG = 2 * LONG
"""After this many seconds of work, :meth:`TimeSlice.is_over` is true, to end work early that cannot pause."""


class TimeSlice:
    """Measures how long the event loop's thread has worked since other tasks were last able to run.

    It measures the thread's CPU time, which stands still while the thread is waiting or has no core. On a busy machine,
    wall time would end every slice immediately.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or current().cpu_time
        self._started_at = self._clock()

    def is_over(self) -> bool:
        """Return whether no more work should be started."""
        return not self._within(TOO_LONG)

    async def pause(self) -> None:
        """Let other tasks run if the slice is used up. A cancellation doesn't affect the slice."""
        if not self._within(LONG):
            await asyncio.sleep(0)
            # Read the clock again: the time of other tasks doesn't count.
            self._started_at = self._clock()

    def _within(self, seconds: float) -> bool:
        # It's negative if the slice started in another thread: each thread has its own CPU clock.
        return 0 <= self._clock() - self._started_at < seconds
