"""When the timer runs its callback: once per loop iteration, or at the earliest scheduled time."""

from __future__ import annotations

import asyncio

from aiokproto.net.timer import Timer
from tests.net.waiting import early_timers


class Calls:
    """Records the time of each call, and sets an event."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.called = asyncio.Event()
        self.timer = Timer(self.callback)

    @property
    def count(self) -> int:
        return len(self.times)

    def callback(self, now: float) -> None:
        self.times.append(now)
        self.called.set()


async def test_several_call_soon_in_one_iteration_run_the_callback_once() -> None:
    calls = Calls()
    calls.timer.call_soon()
    calls.timer.call_soon()
    assert calls.count == 0, "not within the call"
    await asyncio.sleep(0)
    assert calls.count == 1
    await asyncio.sleep(0)
    assert calls.count == 1
    calls.timer.call_soon()
    await asyncio.sleep(0)
    assert calls.count == 2


async def test_call_soon_inside_the_callback_runs_it_again() -> None:
    calls = 0

    def callback(now: float) -> None:
        nonlocal calls
        calls += 1
        if calls < 3:
            timer.call_soon()

    timer = Timer(callback)
    timer.call_soon()
    for _ in range(5):
        await asyncio.sleep(0)
    assert calls == 3


async def test_the_earliest_scheduled_time_wins() -> None:
    calls = Calls()
    start = asyncio.get_running_loop().time()
    soon = start + 0.001
    calls.timer.call_at(start + 1000)
    calls.timer.call_at(soon)
    calls.timer.call_at(start + 2000)
    await calls.called.wait()
    assert calls.count == 1
    assert calls.times[0] >= soon


async def test_a_timer_that_runs_early_passes_the_scheduled_time() -> None:
    calls = Calls()
    then = asyncio.get_running_loop().time() + 1000
    calls.timer.call_at(then)
    with early_timers(2000):
        while not calls.times:
            await asyncio.sleep(0)
    assert calls.times == [then]


async def test_it_can_be_scheduled_again_after_it_ran() -> None:
    calls = Calls()
    for count in (1, 2):
        calls.timer.call_at(asyncio.get_running_loop().time())
        await calls.called.wait()
        calls.called.clear()
        assert calls.count == count


async def test_a_cancelled_timer_does_not_run() -> None:
    calls = Calls()
    calls.timer.call_soon()
    calls.timer.call_at(asyncio.get_running_loop().time())
    calls.timer.cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    assert calls.count == 0
    calls.timer.call_soon()
    await calls.called.wait()


async def test_a_time_in_the_past_runs_at_once_even_if_a_later_one_is_scheduled() -> None:
    calls = Calls()
    now = asyncio.get_running_loop().time()
    calls.timer.call_at(now - 1)
    calls.timer.call_at(now + 60)
    await calls.called.wait()
    assert calls.count == 1
    calls.timer.cancel()
