"""When the alarm calls: soon and once, or at the earliest of the times that were set."""

from __future__ import annotations

import asyncio

from aiokproto.net.alarm import Alarm
from tests.net.waiting import early_timers


class Rings:
    """Counts the calls with their times, and says when there was one."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.heard = asyncio.Event()
        self.alarm = Alarm(self.ring)

    @property
    def count(self) -> int:
        return len(self.times)

    def ring(self, now: float) -> None:
        self.times.append(now)
        self.heard.set()


async def test_it_rings_once_for_all_that_happens_in_a_turn_of_the_loop() -> None:
    rings = Rings()
    rings.alarm.now()
    rings.alarm.now()
    assert rings.count == 0, "not within the call"
    await asyncio.sleep(0)
    assert rings.count == 1
    await asyncio.sleep(0)
    assert rings.count == 1
    rings.alarm.now()
    await asyncio.sleep(0)
    assert rings.count == 2


async def test_set_while_it_rings_it_rings_again() -> None:
    rings = 0

    def ring(now: float) -> None:
        nonlocal rings
        rings += 1
        if rings < 3:
            alarm.now()

    alarm = Alarm(ring)
    alarm.now()
    for _ in range(5):
        await asyncio.sleep(0)
    assert rings == 3


async def test_the_earliest_time_counts() -> None:
    rings = Rings()
    start = asyncio.get_running_loop().time()
    soon = start + 0.001
    rings.alarm.at(start + 1000)
    rings.alarm.at(soon)
    rings.alarm.at(start + 2000)
    await rings.heard.wait()
    assert rings.count == 1
    assert rings.times[0] >= soon


async def test_the_time_it_was_set_for_has_come_when_it_rings() -> None:
    rings = Rings()
    then = asyncio.get_running_loop().time() + 1000
    rings.alarm.at(then)
    with early_timers(2000):
        while not rings.times:
            await asyncio.sleep(0)
    assert rings.times == [then]


async def test_after_it_rang_at_a_time_another_can_be_set() -> None:
    rings = Rings()
    for count in (1, 2):
        rings.alarm.at(asyncio.get_running_loop().time())
        await rings.heard.wait()
        rings.heard.clear()
        assert rings.count == count


async def test_cancelled_it_is_silent() -> None:
    rings = Rings()
    rings.alarm.now()
    rings.alarm.at(asyncio.get_running_loop().time())
    rings.alarm.cancel()
    for _ in range(3):
        await asyncio.sleep(0)
    assert rings.count == 0
    rings.alarm.now()
    await rings.heard.wait()


async def test_a_time_that_has_passed_is_due_at_once_whatever_is_set_then() -> None:
    rings = Rings()
    now = asyncio.get_running_loop().time()
    rings.alarm.at(now - 1)
    rings.alarm.at(now + 60)
    await rings.heard.wait()
    assert rings.count == 1
    rings.alarm.cancel()
