"""A timeout and a cancellation of the same task at the same time: neither is lost."""

from __future__ import annotations

import asyncio

import pytest

from aiokproto.runtime import create_task
from aiokproto.runtime.timeouts import Interruptible, timeout_at, wait_until


async def waits(at: float | None) -> str:
    await wait_until(asyncio.Event(), at)
    return "went on"


@pytest.mark.parametrize("first", ["the timeout", "the cancellation"])
async def test_a_task_cancelled_together_with_its_timeout_ends(first: str) -> None:
    loop = asyncio.get_running_loop()
    task = create_task(waits(loop.time() - 1))
    if first == "the timeout":
        # Its task starts, and schedules the expiry; the cancellation is scheduled behind it.
        loop.call_soon(lambda: loop.call_soon(task.cancel))
    else:
        await asyncio.sleep(0)
        task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


async def test_a_timeout_alone_is_no_cancellation() -> None:
    assert await create_task(waits(0)) == "went on"


async def test_the_outer_one_of_two_timeouts_at_once_is_raised() -> None:
    async def nested() -> str:
        try:
            async with timeout_at(0):
                await waits(0)
                return "the inner one"
        except asyncio.TimeoutError:
            return "the outer one"

    assert await create_task(nested()) == "the outer one"


async def test_an_interruption_hits_the_task_that_waits_and_not_the_one_that_interrupts() -> None:
    calls = Interruptible()

    async def call() -> None:
        async with calls.scope(lambda: ValueError("interrupted")):
            await asyncio.Event().wait()

    task = create_task(call())
    await asyncio.sleep(0)
    assert calls.interrupt() == 1
    await asyncio.wait([task])
    assert isinstance(task.exception(), ValueError)
