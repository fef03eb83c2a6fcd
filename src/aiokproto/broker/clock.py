"""What time it is for a broker, and timers: the system's clock, or one that a test turns by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Protocol

from aiokproto.runtime import current

_SETTLING_TURNS = 20
"""Turns of the event loop that what a timer set off gets before the next one fires: enough for some tasks in a row."""


class Timer(Protocol):
    """What was set to happen later."""

    def cancel(self) -> None:
        """Have it not happen."""
        ...


class Clock(Protocol):
    """A broker's clock. Timers are called in the event loop that set them."""

    def time(self) -> float:
        """Seconds since some moment, for deadlines."""
        ...

    def wall(self) -> int:
        """Milliseconds since the epoch, for what is stored."""
        ...

    def call_at(self, when: float, act: Callable[..., object], *arguments: object) -> Timer:
        """Call ``act`` when :meth:`time` has come to ``when``."""
        ...


class SystemClock:
    """The machine's clock and the running event loop's timers."""

    def time(self) -> float:
        return asyncio.get_running_loop().time()

    def wall(self) -> int:
        return current().wall()

    def call_at(self, when: float, act: Callable[..., object], *arguments: object) -> Timer:
        return asyncio.get_running_loop().call_at(when, act, *arguments)


class _VirtualTimer:
    def __init__(self, act: Callable[[], object]) -> None:
        self._act: Callable[[], object] | None = act

    def cancel(self) -> None:
        self._act = None

    def fire(self) -> None:
        act, self._act = self._act, None
        if act is not None:
            act()


class VirtualClock:
    """A clock that stands still until it is told to go on, so that a test need not wait for a session to end.

    ::

        clock = VirtualClock()
        async with Cluster(clock=clock) as cluster:
            ...
            await clock.advance(45)     # sessions, retention, transactions, delays: whatever is due by then

    It is the broker's alone: what a client waits for on its own, the deadline of a request say, takes its time, and so
    does a Fetch that waits for records.
    """

    def __init__(self, start: int | None = None) -> None:
        """Stand at ``start``, in milliseconds since the epoch; None: now."""
        self._wall = current().wall() if start is None else start
        self._now = 0.0
        self._timers: list[tuple[float, int, _VirtualTimer]] = []
        self._order = count()

    def time(self) -> float:
        """Seconds that it was advanced by so far."""
        return self._now

    def wall(self) -> int:
        """The time it shows, in milliseconds since the epoch."""
        return self._wall + round(self._now * 1000)

    def call_at(self, when: float, act: Callable[..., object], *arguments: object) -> Timer:
        """Call ``act`` when the clock was advanced to ``when``."""
        timer = _VirtualTimer(lambda: act(*arguments))
        if when <= self._now:
            # What is due needs no time to pass, only a turn of the loop.
            asyncio.get_running_loop().call_soon(timer.fire)
            return timer
        heappush(self._timers, (when, next(self._order), timer))
        return timer

    async def advance(self, seconds: float) -> None:
        """Go on by some seconds, and stop on the way at each timer, so that everything happens in its order.

        To be called in the cluster's event loop. If it is cancelled the clock stands where it was.

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
    """Wait on a clock. Cancelling it leaves no timer behind."""
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
