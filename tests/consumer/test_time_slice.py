"""Other tasks run after a time slice of work, and not before."""

from __future__ import annotations

import asyncio

import pytest

from aiokproto.fetched.time_slice import LONG, TOO_LONG, TimeSlice


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def others_ran(time_slice: TimeSlice) -> bool:
    """Return whether a callback that was due ran during the pause."""
    ran: list[bool] = []
    asyncio.get_running_loop().call_soon(ran.append, True)
    await time_slice.pause()
    return bool(ran)


@pytest.mark.parametrize(
    ("worked", "pauses"), [(0.0, False), (LONG * 0.9, False), (LONG, True), (1.0, True), (-1.0, True)]
)
async def test_the_loop_gets_a_turn_after_enough_work(worked: float, pauses: bool) -> None:
    """The clock of another thread may be behind the one in which the time slice started."""
    clock = Clock()
    time_slice = TimeSlice(clock)
    clock.now = worked
    assert await others_ran(time_slice) is pauses


async def test_a_pause_starts_a_new_time_slice() -> None:
    clock = Clock()
    time_slice = TimeSlice(clock)
    clock.now = TOO_LONG
    assert time_slice.is_over()
    assert await others_ran(time_slice)
    assert not time_slice.is_over()
    assert not await others_ran(time_slice)
