"""Waking a task: now, or at a time."""

from __future__ import annotations

import asyncio


class Alarm:
    """What one task sleeps on. Setting it again before the task runs is free, and no wake-up is lost."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._ringing = False
        self._sleeper: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._when = float("inf")

    def now(self) -> None:
        """Wake the task, or let its next :meth:`wait` return at once."""
        self._ringing = True
        if self._sleeper is not None and not self._sleeper.done():
            self._sleeper.set_result(None)

    def at(self, when: float) -> None:
        """Wake the task at ``when`` (s, the loop's clock) unless it is awake before."""
        if when < self._when:
            self.cancel()
            self._when = when
            self._timer = self._loop.call_at(when, self.now)

    async def wait(self) -> None:
        """Sleep. Waking clears all that was set."""
        try:
            if not self._ringing:
                self._sleeper = self._loop.create_future()
                await self._sleeper
        finally:
            self._ringing = False
            self._sleeper = None
            self.cancel()

    def cancel(self) -> None:
        """Forget the time that was set."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._when = float("inf")
