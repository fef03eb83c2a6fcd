"""Others have their turn of the event loop after so much work, and not before."""

from __future__ import annotations

import asyncio

import pytest

from aiokproto.consumer.turn import LONG, TOO_LONG, Turn


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


async def others_ran(turn: Turn) -> bool:
    """Whether a callback that was due before came to run in the pause."""
    ran: list[bool] = []
    asyncio.get_running_loop().call_soon(ran.append, True)
    await turn.pause()
    return bool(ran)


@pytest.mark.parametrize(
    ("worked", "pauses"), [(0.0, False), (LONG * 0.9, False), (LONG, True), (1.0, True), (-1.0, True)]
)
async def test_a_pause_is_made_after_enough_work(worked: float, pauses: bool) -> None:
    """The clock of another thread than the turn was begun in may well show less."""
    clock = Clock()
    turn = Turn(clock)
    clock.now = worked
    assert await others_ran(turn) is pauses


async def test_a_pause_begins_a_new_turn() -> None:
    clock = Clock()
    turn = Turn(clock)
    clock.now = TOO_LONG
    assert turn.is_over()
    assert await others_ran(turn)
    assert not turn.is_over()
    assert not await others_ran(turn)
