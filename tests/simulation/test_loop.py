"""The event loop in virtual time is an event loop like others, except for its clock."""

from __future__ import annotations

import asyncio
import time
import weakref
from collections.abc import AsyncIterator

import pytest

from aiokproto.simulation import DeadlockError, Simulation


def test_an_hour_passes_at_once() -> None:
    simulation = Simulation()
    begun = time.monotonic()
    simulation.run(asyncio.sleep(3600))
    assert 3600 <= simulation.time() < 3600.001
    assert simulation.loop.turns < 10
    assert time.monotonic() - begun < 3600


def test_timers_run_in_the_order_of_their_times_and_then_as_they_were_set() -> None:
    simulation, ran = Simulation(), list[int]()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for number, when in enumerate([2.0, 1.0, 2.0, 0.0, 1.0]):
            loop.call_at(when, ran.append, number)
        loop.call_at(1.5, ran.append, -1).cancel()
        await asyncio.sleep(3)

    simulation.run(main())
    assert ran == [3, 1, 4, 0, 2]


def test_cancelled_timers_do_not_stay() -> None:
    simulation = Simulation()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        for _ in range(10_000):
            loop.call_later(3600, print).cancel()

    simulation.run(main())
    assert len(simulation.loop._timers) < 1_000
    assert simulation.time() < 1


def test_a_deadline_is_exact() -> None:
    simulation = Simulation()

    async def main() -> float:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 30)
        return simulation.time()

    assert 30 <= simulation.run(main()) < 30.001


def test_deadlocked_tasks_are_named() -> None:
    async def forgotten() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        await asyncio.create_task(forgotten(), name="the one that waits")

    with pytest.raises(DeadlockError, match=r"the one that waits at .*test_loop.py"):
        Simulation().run(main())


def test_time_advances_while_a_task_spins() -> None:
    simulation = Simulation()

    async def main() -> None:
        async def spin() -> None:
            while True:
                await asyncio.sleep(0)

        spinning = asyncio.create_task(spin())
        await asyncio.sleep(1)
        spinning.cancel()

    simulation.run(main())
    assert simulation.loop.turns > 50_000


def test_after_a_stall_timers_are_late_all_at_once() -> None:
    simulation, ran = Simulation(), list[tuple[int, float]]()

    async def main() -> None:
        loop = asyncio.get_running_loop()

        def note(seconds: int) -> None:
            ran.append((seconds, round(simulation.time(), 3)))

        for seconds in (1, 2, 10):
            loop.call_later(seconds, note, seconds)
        loop.call_later(0.5, simulation.loop.stall, 5)
        await asyncio.sleep(11)

    simulation.run(main())
    assert ran == [(1, 5.5), (2, 5.5), (10, 10.0)]


def test_remaining_tasks_are_cancelled_at_the_end() -> None:
    simulation, ended = Simulation(), list[str]()

    async def left() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("task")

    async def generated() -> AsyncIterator[int]:
        try:
            yield 1
        finally:
            ended.append("generator")

    async def main() -> None:
        tasks.append(asyncio.create_task(left()))
        generators.append(generated())
        assert await generators[0].__anext__() == 1

    tasks: list[asyncio.Task[None]] = []
    generators: list[AsyncIterator[int]] = []
    simulation.run(main())
    assert ended == ["task", "generator"]
    assert simulation.loop.is_closed()


def test_finished_generators_do_not_stay() -> None:
    simulation, generators = Simulation(), weakref.WeakSet[AsyncIterator[int]]()

    async def generated() -> AsyncIterator[int]:
        yield 1

    async def main() -> None:
        for _ in range(1000):
            generator = generated()
            generators.add(generator)
            assert [number async for number in generator] == [1]
        assert len(generators) <= 101

    simulation.run(main())


def test_threads_take_time_and_pools_fill_up() -> None:
    simulation = Simulation()
    simulation.threads.seconds = (1.0, 1.0)

    async def main() -> list[float]:
        done: list[float] = []

        async def work() -> None:
            await asyncio.to_thread(int)
            done.append(round(simulation.time(), 1))

        await asyncio.gather(*(work() for _ in range(8)))
        simulation.threads.hold()
        waiting = asyncio.create_task(work())
        await asyncio.sleep(60)
        assert not waiting.done()
        simulation.threads.release()
        await waiting
        return done

    assert simulation.run(main()) == [1.0] * 6 + [2.0] * 2 + [63.0]


def test_an_exception_in_a_thread_is_raised_to_the_awaiting_task() -> None:
    with pytest.raises(ValueError, match="no number"):
        Simulation().run(asyncio.to_thread(int, "no number"))


def test_an_error_in_a_callback_goes_to_the_handler() -> None:
    simulation, seen = Simulation(), list[object]()

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: seen.append(context["exception"]))
        loop.call_soon(int, "no number")
        await asyncio.sleep(1)

    simulation.run(main())
    assert [type(error) for error in seen] == [ValueError]


def test_unsupported_loop_methods_are_refused() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        with pytest.raises(NotImplementedError):
            loop.add_signal_handler(15, print)
        with pytest.raises(NotImplementedError):
            await asyncio.create_subprocess_exec("true")
        with pytest.raises(NotImplementedError, match="without TLS"):
            await loop.create_connection(asyncio.Protocol, "localhost", 1, ssl=True)

    Simulation().run(main())
