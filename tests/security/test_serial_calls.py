"""Calls in a thread, one after the other."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from aiokproto.security.gssapi import SerialCalls
from tests.timeouts import LONG_TIMEOUT


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "serial"]


async def test_results_and_errors_reach_the_caller() -> None:
    calls = SerialCalls("serial")
    assert await calls.call(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await calls.call(lambda: 1 // 0)
    assert await calls.call(lambda: threading.current_thread().name) == "serial"


async def test_one_runs_at_a_time_in_the_order_of_the_calls() -> None:
    calls, running, order = SerialCalls("serial"), 0, list[int]()

    def noted(number: int) -> Callable[[], int]:
        def function() -> int:
            nonlocal running
            running += 1
            order.append(number)
            found, running = running, running - 1
            return found

        return function

    assert await asyncio.gather(*(calls.call(noted(number)) for number in range(50))) == [1] * 50
    assert order == list(range(50))


async def test_the_thread_ends_when_nothing_waits_and_never_keeps_a_process_alive() -> None:
    calls = SerialCalls("serial")
    for _ in range(3):
        (thread,) = await calls.call(threads)
        assert thread.daemon
        thread.join(LONG_TIMEOUT)
        assert not threads()


async def test_a_cancelled_call_that_waits_is_never_made() -> None:
    calls, begun, end, made = SerialCalls("serial"), asyncio.Event(), threading.Event(), list[str]()
    loop = asyncio.get_running_loop()

    def block() -> None:
        loop.call_soon_threadsafe(begun.set)
        end.wait(LONG_TIMEOUT)
        made.append("first")

    first = asyncio.ensure_future(calls.call(block))
    await begun.wait()
    second = asyncio.ensure_future(calls.call(lambda: made.append("second")))
    third = asyncio.ensure_future(calls.call(lambda: made.append("third")))
    await asyncio.sleep(0)
    # A call that has started continues by itself, although no caller waits for it.
    for each in (first, second):
        each.cancel()
        with pytest.raises(asyncio.CancelledError):
            await each
    assert not made
    end.set()
    await third
    assert made == ["first", "third"]


def test_several_event_loops_share_the_thread() -> None:
    calls = SerialCalls("serial")
    assert [asyncio.run(calls.call(lambda number=number: number)) for number in range(3)] == [0, 1, 2]  # type: ignore[misc]


def test_a_loop_that_has_closed_does_not_disturb_the_thread() -> None:
    calls, begun, end = SerialCalls("serial"), threading.Event(), threading.Event()

    def block() -> None:
        begun.set()
        end.wait(LONG_TIMEOUT)

    async def abandon() -> None:
        waiting = asyncio.ensure_future(calls.call(block))
        await asyncio.to_thread(begun.wait, LONG_TIMEOUT)
        waiting.cancel()

    asyncio.run(abandon())
    end.set()
    assert asyncio.run(calls.call(lambda: 7)) == 7
