"""Handlers of `ShareConsumer.run` that fail in unusual ways, in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokproto.application.calls import CallbackError
from aiokproto.share import ShareRecord
from aiokproto.simulation import Simulation
from tests.share.test_share_faults import broker, consumer
from tests.simulation.environment import until


async def cancelled_by_others() -> None:
    waiting = asyncio.get_running_loop().create_future()
    waiting.cancel()
    await waiting


def test_what_others_cancelled_is_an_error_of_the_handler(caplog: pytest.LogCaptureFixture) -> None:
    """The error is logged and given to `on_error`, and the record is released after the backoff, so that its deliveries
    aren't used up at once."""
    calls: list[tuple[float, int]] = []
    errors: list[Exception] = []

    async def program() -> None:
        async def handle(record: ShareRecord) -> None:
            calls.append((simulation.time(), record.delivery_count))
            if record.delivery_count < 3:
                await cancelled_by_others()
            jobs.stop_run()

        def on_error(record: ShareRecord, error: Exception) -> Any:
            errors.append(error)
            return "release"

        async with broker(1) as cluster, consumer(cluster) as jobs:
            summary = await jobs.run(handle, on_error=on_error)
            assert (summary.processed, summary.failed, summary.retried) == (1, 2, 2)

    simulation = Simulation(1)
    simulation.run(program())
    assert [count for _, count in calls] == [1, 2, 3]
    assert calls[2][0] - calls[0][0] >= 3, "one second, then two"
    assert [type(each) for each in errors] == [CallbackError] * 2
    assert all(isinstance(each.__cause__, asyncio.CancelledError) for each in errors)
    assert len([each for each in caplog.messages if "the handler failed" in each]) == 2


@pytest.mark.parametrize("error", [KeyError("bug"), asyncio.CancelledError()])
def test_what_on_error_raises_is_raised_at_once(error: BaseException) -> None:
    async def program() -> None:
        async def handle(record: ShareRecord) -> None:
            raise OSError("down")

        def on_error(record: ShareRecord, failed: Exception) -> Any:
            raise error

        async with broker(1) as cluster, consumer(cluster) as jobs:
            began = simulation.time()
            with pytest.raises(CallbackError if isinstance(error, asyncio.CancelledError) else KeyError):
                await jobs.run(handle, on_error=on_error)
            assert simulation.time() - began < 5

    simulation = Simulation(1)
    simulation.run(program())


def test_a_cancelled_run_leaves_a_handler_alone_that_swallows_its_cancellation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def program() -> None:
        free, begun = asyncio.Event(), asyncio.Event()

        async def handle(record: ShareRecord) -> None:
            begun.set()
            while not free.is_set():
                try:
                    await free.wait()
                except asyncio.CancelledError:
                    continue

        async with broker(1) as cluster, consumer(cluster) as jobs:
            running = asyncio.ensure_future(jobs.run(handle, drain_timeout_ms=1000))
            await begun.wait()
            began = simulation.time()
            running.cancel()
            await asyncio.wait([running])
            assert running.cancelled()
            assert 1 <= simulation.time() - began < 5
            free.set()
            await until(lambda: not [each for each in asyncio.all_tasks() if "share-run" in each.get_name()])

    simulation = Simulation(1)
    simulation.run(program())
    assert [each for each in caplog.messages if "left alone: t-0 at offset 0" in each]


def test_a_handler_that_takes_too_long_has_failed() -> None:
    async def program() -> None:
        async def handle(record: ShareRecord) -> None:
            if record.delivery_count == 1:
                await asyncio.Event().wait()
            jobs.stop_run()

        async with broker(1) as cluster, consumer(cluster) as jobs:
            summary = await jobs.run(handle, handler_timeout_ms=500)
            assert (summary.processed, summary.failed, summary.retried) == (1, 1, 1)
            status = jobs.run_status()
            assert status is not None
            assert not status.active
            assert status.pending == 0

    Simulation(1).run(program())
