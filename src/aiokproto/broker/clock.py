"""The broker's clock and timers: the system's, or a virtual clock that a test advances."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Protocol, runtime_checkable

from aiokproto.runtime import current

_SETTLING_TURNS = 20
"""Event loop iterations between two timers: tasks woken by the first timer run before the second timer fires.
"""

_FEW_TIMERS = 100
"""Cancelled timers are purged only if there are more timers than this."""


class Timer(Protocol):
    """A callback scheduled with :meth:`Clock.call_at`."""

    def cancel(self) -> None:
        """Cancel the callback. Does nothing if the callback already ran."""
        ...


@runtime_checkable
class Clock(Protocol):
    """A broker's clock. Callbacks run in the event loop that scheduled them."""

    def time(self) -> float:
        """Monotonic time in seconds, for deadlines."""
        ...

    def wall(self) -> int:
        """Wall-clock time in milliseconds since the epoch, for timestamps that are stored."""
        ...

    def call_at(self, when: float, callback: Callable[..., object], *arguments: object) -> Timer:
        """Call ``callback`` when :meth:`time` reaches ``when``."""
        ...


class SystemClock:
    """The machine's clock and the running event loop's timers."""

    def time(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> int:
        return current().milliseconds()

    def call_at(self, when: float, callback: Callable[..., object], *arguments: object) -> Timer:
        return asyncio.get_running_loop().call_at(when, callback, *arguments)


class _VirtualTimer:
    def __init__(self, act: Callable[[], object]) -> None:
        self._act: Callable[[], object] | None = act

    @property
    def cancelled(self) -> bool:
        return self._act is None

    def cancel(self) -> None:
        self._act = None

    def fire(self) -> None:
        act, self._act = self._act, None
        if act is not None:
            act()


class VirtualClock:
    """A clock that stands still until a test advances it. Tests don't have to wait for a session to expire.

    ::

        clock = VirtualClock()
        async with Cluster(clock=clock) as cluster:
            ...
            await clock.advance(45)     # session timeouts, retention, transaction timeouts, injected delays

    Only the broker uses it. A client's own timers, such as request timeouts, run in real time. A Fetch's
    ``max_wait_ms`` runs in real time too, like the client's timeout for that Fetch.
    """

    def __init__(self, start: int | None = None) -> None:
        """Start at ``start`` (milliseconds since the epoch), or at the current time if None."""
        self._wall = current().milliseconds() if start is None else start
        self._now = 0.0
        self._timers: list[tuple[float, int, _VirtualTimer]] = []
        # Cancelled timers are removed when there are more timers than this.
        self._max_timers = _FEW_TIMERS
        self._order = count()

    def time(self) -> float:
        """Seconds by which the clock has been advanced."""
        return self._now

    def wall(self) -> int:
        """The virtual time in milliseconds since the epoch."""
        return self._wall + round(self._now * 1000)

    def call_at(self, when: float, callback: Callable[..., object], *arguments: object) -> Timer:
        """Call ``callback`` when the clock is advanced to ``when``, or in the next loop iteration if that time has
        passed."""
        timer = _VirtualTimer(lambda: callback(*arguments))
        if when <= self._now:
            # Don't call the callback right away: as with loop.call_at, the caller's step ends first.
            asyncio.get_running_loop().call_soon(timer.fire)
            return timer
        heappush(self._timers, (when, next(self._order), timer))
        if len(self._timers) > self._max_timers:
            # Cancelled timers may never come due: each heartbeat cancels one, even while a test lets the clock stand
            # still.
            self._timers = [entry for entry in self._timers if not entry[2].cancelled]
            heapify(self._timers)
            self._max_timers = max(_FEW_TIMERS, 2 * len(self._timers))
        return timer

    async def advance(self, seconds: float) -> None:
        """Advance the clock, stopping at each timer on the way: timers fire in order, each at its own time.

        Call it in the cluster's event loop. If it is cancelled, the clock stays at the last timer that fired.

        Raises:
            ValueError: ``seconds`` is negative.
        """
        if seconds < 0:
            raise ValueError(f"a clock cannot be advanced by {seconds} seconds")
        end = self._now + seconds
        await _settle()
        while self._timers and self._timers[0][0] <= end:
            when, _, timer = heappop(self._timers)
            self._now = max(self._now, when)
            timer.fire()
            await _settle()
        self._now = end


async def _settle() -> None:
    for _ in range(_SETTLING_TURNS):
        await asyncio.sleep(0)


async def sleep(clock: Clock, seconds: float) -> None:
    """Sleep on a clock. Cancelling the sleep cancels its timer."""
    if seconds <= 0:
        return
    woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    timer = clock.call_at(clock.time() + seconds, _wake, woken)
    try:
        await woken
    finally:
        timer.cancel()


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)
