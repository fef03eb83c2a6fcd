"""Sets of tasks and futures, which asyncio often creates, have the same order in every run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiokproto.simulation import Simulation

COUNT = 30
RUNS = 4

Note = Callable[[int], None]


async def _later(number: int) -> int:
    await asyncio.sleep(0.01)
    return number


async def _until_cancelled(number: int, note: Note) -> None:
    try:
        await asyncio.sleep(60)
    except asyncio.CancelledError:
        note(number)
        raise


async def wait(note: Note) -> None:
    done, _ = await asyncio.wait({asyncio.create_task(_later(number)) for number in range(COUNT)})
    for task in done:
        note(task.result())


async def as_completed(note: Note) -> None:
    for each in asyncio.as_completed([asyncio.create_task(_later(number)) for number in range(COUNT)]):
        note(await each)


async def all_tasks(note: Note) -> None:
    tasks = [asyncio.create_task(_until_cancelled(number, note)) for number in range(COUNT)]
    await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.wait(tasks)


async def left_behind(note: Note) -> None:
    tasks = [asyncio.create_task(_until_cancelled(number, note)) for number in range(COUNT)]
    await asyncio.sleep(0)
    asyncio.get_running_loop().tasks = tasks  # type: ignore[attr-defined]


async def futures(note: Note) -> None:
    loop = asyncio.get_running_loop()
    numbers = {loop.create_future(): number for number in range(COUNT)}
    for future in set(numbers):
        note(numbers[future])


async def names(note: Note) -> None:
    task = asyncio.create_task(_later(0))
    note(int(task.get_name().rpartition("-")[2]))
    await task


@pytest.mark.parametrize("program", [wait, as_completed, all_tasks, left_behind, futures, names])
def test_every_run_has_the_same_order(program: Callable[[Note], Awaitable[None]]) -> None:
    runs: list[list[int]] = []
    for _ in range(RUNS):
        runs.append([])
        Simulation(1).run(program(runs[-1].append))
    assert runs[0]
    assert runs == [runs[0]] * RUNS
