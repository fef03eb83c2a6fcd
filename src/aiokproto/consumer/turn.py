"""Turns of the event loop: whoever has much to do gives others their turn in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiokproto.runtime import current

LONG = 0.002
"""Seconds of work after which others have their turn at the next opportunity."""

TOO_LONG = 2 * LONG
"""Seconds of work after which not even what has been begun goes on."""


class Turn:
    """How long the event loop's thread has worked since this last let others run.

    What counts is the thread's CPU time: it does not run on while the thread waits, or has no core to run on.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._clock = clock or current().cpu_time
        self._began = self._clock()

    def is_over(self) -> bool:
        """Whether to begin nothing more."""
        return not self._within(TOO_LONG)

    async def pause(self) -> None:
        """Let others run, if that is due. Has no effect when cancelled."""
        if not self._within(LONG):
            await asyncio.sleep(0)
            self._began = self._clock()

    def _within(self, seconds: float) -> bool:
        # It may have begun in another thread, whose time was further on.
        return 0 <= self._clock() - self._began < seconds
