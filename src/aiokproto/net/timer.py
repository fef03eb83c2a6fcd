"""A timer that coalesces: many calls of :meth:`Timer.call_soon` and :meth:`Timer.call_at` run the callback once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Timer:
    """Runs one callback, any number of times.

    If it's scheduled twice before it runs, it runs once, at the earlier time.

    The callback can run earlier than scheduled, never later, and receives the time. With a coarse clock (Windows: 16
    ms) asyncio runs timers up to one tick early; the callback then receives the scheduled time instead of the clock's.
    Otherwise a caller that compares its deadlines with the clock would find that none has expired and schedule the same
    time again, in every iteration of the event loop until the clock's next tick.
    """

    __slots__ = ("_callback", "_loop", "_soon", "_timer", "_when")

    def __init__(self, callback: Callable[[float], None]) -> None:
        """Create a timer in the running loop; nothing is scheduled yet.

        Args:
            callback: Called with the time (s, the loop's clock).
        """
        self._loop = asyncio.get_running_loop()
        self._callback = callback
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._when = 0.0

    def call_soon(self) -> None:
        """Run in the next iteration of the loop, once, after everything that is already ready to run."""
        if self._soon is None:
            self._soon = self._loop.call_soon(self._run_soon)

    def call_at(self, when: float) -> None:
        """Run at ``when`` (s, the loop's clock), or at the time that is already scheduled, if that is earlier.

        The earlier time stays scheduled even if it's no longer needed: an extra call costs less than creating and
        cancelling a ``TimerHandle`` for every request.
        """
        if self._timer is not None:
            if self._when <= when:
                return
            self._timer.cancel()
        # Store it: uvloop's TimerHandle.when() is wrong for a time that has passed.
        self._when = when
        self._timer = self._loop.call_at(when, self._run_at)

    def cancel(self) -> None:
        """Cancel everything that is scheduled."""
        for handle in (self._soon, self._timer):
            if handle is not None:
                handle.cancel()
        self._soon = self._timer = None

    def _run_soon(self) -> None:
        # Clear it before the callback, which may schedule the timer again.
        self._soon = None
        self._callback(self._loop.time())

    def _run_at(self) -> None:
        # As above, clear it before the callback.
        self._timer = None
        self._callback(max(self._loop.time(), self._when))
