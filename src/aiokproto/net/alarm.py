"""A timer that can be set again and again: soon, or for a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Alarm:
    """Calls one function, again and again. Set twice before it rings, it rings once, at the earlier time.

    It may ring earlier than was asked for, never later, and says what time it is. Where the clock goes in steps, timers
    run up to a step before their time: a time that the alarm was set for has come when it rings. Else a caller that
    compares its deadlines with the clock would find nothing due, and set it again in every turn of the loop until the
    next step.
    """

    __slots__ = ("_loop", "_ring", "_soon", "_timer", "_when")

    def __init__(self, ring: Callable[[float], None]) -> None:
        """Make an alarm; must be called in the running loop.

        Args:
            ring: What to call, with the time (s, the loop's clock).
        """
        self._loop = asyncio.get_running_loop()
        self._ring = ring
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._when = 0.0

    def now(self) -> None:
        """Ring when all that is ready to run has run: once for everything that happens until then."""
        if self._soon is None:
            self._soon = self._loop.call_soon(self._ring_now)

    def at(self, when: float) -> None:
        """Ring at ``when`` (s, the loop's clock), or at an earlier time that was set before.

        That earlier time is not taken back: to ring once too often costs less than a timer for each request.
        """
        if self._timer is not None:
            if self._when <= when:
                return
            self._timer.cancel()
        # Kept here, since uvloop's timers do not say it of a time that has passed.
        self._when = when
        self._timer = self._loop.call_at(when, self._ring_at)

    def cancel(self) -> None:
        """Forget all that was set."""
        for handle in (self._soon, self._timer):
            if handle is not None:
                handle.cancel()
        self._soon = self._timer = None

    def _ring_now(self) -> None:
        self._soon = None
        self._ring(self._loop.time())

    def _ring_at(self) -> None:
        self._timer = None
        self._ring(max(self._loop.time(), self._when))
