"""Handlers of `Consumer.run` that fail at an awkward time, and dead letters that cannot be written."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from aiokproto import Consumer
from aiokproto.broker import Cluster
from aiokproto.consumer import Retry
from aiokproto.errors import ClientClosedError
from aiokproto.observe.health import HealthStatus
from aiokproto.simulation import Simulation
from aiokproto.types import Record, TopicPartition
from tests.simulation.environment import until
from tests.simulation.test_running import FIRST, PARTITIONS, RECORDS, committed, ended, run
from tests.timeouts import LONG_TIMEOUT


class Stuck:
    """A dead-letter topic that acknowledges nothing."""

    def __init__(self) -> None:
        self.writing = 0
        self.cancelled = 0

    async def write(
        self, record: Record, error: BaseException, *, group: str | None = None, delivery_count: int | None = None
    ) -> None:
        """Never return."""
        self.writing += 1
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise


def test_the_end_of_a_run_waits_for_no_call_that_has_failed_and_would_be_made_again() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        began: list[float] = []

        async def handle(record: Record) -> None:
            began.append(simulation.time())
            await asyncio.sleep(1)
            raise ValueError("later")

        async with Consumer("t", **options) as consumer:
            task = asyncio.create_task(consumer.run(handle, retry=Retry(backoff_ms=5000), drain_timeout_ms=60_000))
            await until(lambda: len(began) == PARTITIONS)
            stopped = simulation.time()
            await ended(consumer, task)
            assert simulation.time() - stopped < 2
        assert committed(cluster) == {0: 0, 1: 0}

    run(program)


def test_records_that_wait_long_for_their_retry_keep_their_partitions() -> None:
    """This holds even if they are the maximum that may be pending, so that nothing is taken meanwhile."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        lost: list[object] = []
        calls: Counter[tuple[int, int]] = Counter()

        async def handle(record: Record) -> None:
            calls[record.partition, record.offset] += 1
            raise ValueError("the service is down")

        async with Consumer("t", **options) as consumer:
            consumer.subscribe("t", on_lost=lost.append, on_revoked=lost.append)
            retry = Retry(attempts=9, backoff_ms=60_000, max_backoff_ms=60_000)
            task = asyncio.create_task(consumer.run(handle, order="none", retry=retry, max_pending_records=4))
            await asyncio.sleep(100)
            assert not lost
            assert len(calls) == 4
            assert set(calls.values()) <= {2, 3, 4}
            await ended(consumer, task)

    run(program)


def test_a_dead_letter_of_a_call_that_took_too_long_can_be_cancelled(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async def handle(record: Record) -> None:
            await asyncio.Event().wait()

        letters = Stuck()
        async with Consumer("t", **options) as consumer:
            call = consumer.run(handle, handler_timeout_ms=100, dead_letter=letters, drain_timeout_ms=500)
            task = asyncio.create_task(call)
            await until(lambda: letters.writing == PARTITIONS)
            await ended(consumer, task)
            assert letters.cancelled == PARTITIONS
        assert committed(cluster) == {0: 0, 1: 0}

    run(program)
    assert not [each for each in caplog.messages if "left alone" in each]


@pytest.mark.parametrize("took_too_long", [False, True])
def test_a_dead_letter_that_others_cancel_ends_the_run(took_too_long: bool) -> None:
    """This holds even if the run had cancelled the call itself, which took too long."""

    class Cancelling(Stuck):
        async def write(self, record: Record, error: BaseException, **of: Any) -> None:
            writers.append(asyncio.current_task())
            await super().write(record, error, **of)

    writers: list[asyncio.Task[Any] | None] = []

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async def handle(record: Record) -> None:
            if not took_too_long:
                raise ValueError("no")
            await asyncio.Event().wait()

        async with Consumer("t", **options) as consumer:
            task = asyncio.create_task(consumer.run(handle, handler_timeout_ms=100, dead_letter=Cancelling()))
            await until(lambda: len(writers) == PARTITIONS)
            assert writers[0] is not None
            writers[0].cancel()
            with pytest.raises(ClientClosedError, match="was cancelled, and not by the run"):
                await asyncio.wait_for(task, LONG_TIMEOUT)
        assert committed(cluster) == {0: 0, 1: 0}

    run(program)


def test_a_dead_letter_that_is_never_acknowledged_costs_the_partition_after_max_poll_interval() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        lost: list[TopicPartition] = []

        async def handle(record: Record) -> None:
            if record.partition == 0:
                await asyncio.Event().wait()

        letters = Stuck()
        async with Consumer(**options) as consumer:
            consumer.subscribe("t", on_lost=lost.extend)
            task = asyncio.create_task(consumer.run(handle, handler_timeout_ms=100, dead_letter=letters))
            await until(lambda: bool(lost))
            assert FIRST in lost
            assert letters.cancelled == 1
            await ended(consumer, task)

    run(program)


def test_a_handler_that_ignores_its_timeout_costs_the_partition_after_max_poll_interval() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        lost: list[TopicPartition] = []
        cancellations, gate = 0, asyncio.Event()

        async def stubborn(record: Record) -> None:
            nonlocal cancellations
            while not gate.is_set():
                try:
                    await gate.wait()
                except asyncio.CancelledError:
                    cancellations += 1

        async with Consumer(**options) as consumer:
            consumer.subscribe("t", on_lost=lost.extend)
            task = asyncio.create_task(consumer.run(stubborn, handler_timeout_ms=100))
            await until(lambda: bool(lost))
            # The handler was cancelled once for the timeout and once for the loss. The partition isn't lost again and
            # again.
            await asyncio.sleep(60)
            assert cancellations == 2 * PARTITIONS
            assert len(lost) == PARTITIONS
            gate.set()
            await ended(consumer, task)

    run(program)


def test_a_run_whose_end_is_cancelled_from_outside_gives_the_consumer_back(caplog: pytest.LogCaptureFixture) -> None:
    """`asyncio.run` cancels every task after a second Ctrl-C. Closing still ends."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async def handle(record: Record) -> None:
            await asyncio.sleep(1000)

        consumer = Consumer("t", **options)
        await consumer.start()
        task = asyncio.create_task(consumer.run(handle, drain_timeout_ms=500_000))
        await asyncio.sleep(5)
        consumer.stop_run()
        await asyncio.sleep(1)
        (ending,) = (each for each in asyncio.all_tasks() if each.get_name() == "aiokproto-consumer-run-end")
        ending.cancel()
        await asyncio.wait([task], timeout=30)
        assert task.done()
        status = consumer.run_status()
        assert status is not None
        assert not status.active
        began = simulation.time()
        await consumer.close()
        assert simulation.time() - began < 30
        assert committed(cluster) == {0: 0, 1: 0}

    with caplog.at_level(logging.ERROR):
        run(program)


def test_a_handler_cannot_wait_for_its_own_partitions_to_be_given_up() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async def handle(record: Record) -> None:
            with pytest.raises(RuntimeError, match=r"a handler cannot await unsubscribe\(\)"):
                await consumer.unsubscribe()
            consumer.stop_run()

        async with Consumer("t", **options) as consumer:
            assert (await consumer.run(handle)).processed >= 1
            assert consumer.subscription() == {"t"}

    run(program)


@pytest.mark.parametrize("order", ["partition", "key", "none"])
def test_handlers_that_commit_their_records_themselves_do_not_hold_up_a_rebalance(order: Any) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        done: Counter[tuple[int, int]] = Counter()
        options["enable_auto_commit"] = False
        longest = 0.0

        def handler(consumer: Consumer) -> Any:
            async def handle(record: Record) -> None:
                nonlocal longest
                await asyncio.sleep(0.1)
                done[record.partition, record.offset] += 1
                began = simulation.time()
                await consumer.commit()
                longest = max(longest, simulation.time() - began)

            return handle

        async with Consumer("t", **options) as first:
            running = asyncio.create_task(first.run(handler(first), order=order, concurrency=3))
            await until(lambda: len(done) > 6)
            async with Consumer("t", **options) as second:
                joining = asyncio.create_task(second.run(handler(second), order=order, concurrency=3))
                await until(lambda: len(done) == PARTITIONS * RECORDS)
                assert longest < 5
                await ended(second, joining)
            await ended(first, running)

    run(program)


def _running(consumer: Consumer) -> int:
    status = consumer.run_status()
    return 0 if status is None else status.running


def test_health_is_degraded_while_a_handler_hangs() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async def handle(record: Record) -> None:
            await asyncio.sleep(29)

        options["max_poll_interval_ms"] = 40_000
        async with Consumer("t", **options) as consumer:
            task = asyncio.create_task(consumer.run(handle))
            await until(lambda: _running(consumer) == PARTITIONS)
            await asyncio.sleep(15)
            assert consumer.health().status is HealthStatus.OK
            await asyncio.sleep(10)
            assert consumer.health().status is HealthStatus.DEGRADED
            assert "has been running for 2" in str(consumer.health())
            assert "(1 more)" in str(consumer.health())
            await asyncio.sleep(5)
            assert consumer.health().status is HealthStatus.OK
            await ended(consumer, task)

    run(program)


def test_health_is_degraded_while_an_abandoned_handler_runs() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        released = asyncio.Event()

        async def handle(record: Record) -> None:
            while not released.is_set():
                with suppress(asyncio.CancelledError):
                    await released.wait()

        async with Consumer("t", **options) as consumer:
            task = asyncio.create_task(consumer.run(handle, drain_timeout_ms=1000))
            await until(lambda: _running(consumer) == PARTITIONS)
            await ended(consumer, task)
            assert consumer.health().status is HealthStatus.DEGRADED
            assert "although it was cancelled: the run ends" in str(consumer.health())
            released.set()
            await asyncio.sleep(1)
            assert consumer.health().status is HealthStatus.OK

    run(program)
