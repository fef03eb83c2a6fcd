"""Coroutines that are started first and awaited later."""

from __future__ import annotations

import asyncio

import pytest

from aiokproto.runtime.coroutines import resumed


async def work(seen: list[str], gate: asyncio.Event) -> str:
    try:
        await gate.wait()
        await asyncio.sleep(0)
    except asyncio.CancelledError:
        seen.append("cancelled")
        raise
    finally:
        seen.append("ended")
    return "result"


async def test_a_started_coroutine_goes_on_where_it_waits() -> None:
    gate, seen = asyncio.Event(), list[str]()
    started = work(seen, gate)
    waits_for = started.send(None)
    asyncio.get_running_loop().call_soon(gate.set)
    assert await resumed(started, waits_for) == "result"
    assert seen == ["ended"]


async def test_a_cancellation_reaches_the_coroutine() -> None:
    gate, seen = asyncio.Event(), list[str]()
    started = work(seen, gate)
    waits_for = started.send(None)
    task = asyncio.ensure_future(asyncio.wait_for(_await(started, waits_for), 0.01))
    with pytest.raises(asyncio.TimeoutError):
        await task
    assert seen == ["cancelled", "ended"]


async def _await(started: object, waits_for: object) -> object:
    return await resumed(started, waits_for)  # type: ignore[arg-type]


async def test_an_exception_comes_from_the_coroutine() -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    started = fails()
    waits_for = started.send(None)
    with pytest.raises(ValueError, match="no"):
        await resumed(started, waits_for)


async def test_the_coroutine_may_go_on_after_a_cancellation() -> None:
    async def stubborn() -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        return 7

    started = stubborn()
    waits_for = started.send(None)
    task = asyncio.ensure_future(_await(started, waits_for))
    await asyncio.sleep(0)
    task.cancel()
    assert await task == 7
