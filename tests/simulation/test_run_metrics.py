"""`run()` in the statistics and hooks of both consumers."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokproto import Consumer
from aiokproto.broker import Cluster
from aiokproto.consumer import PermanentError, Retry, RunStats
from aiokproto.hooks import Hooks, RunProgressed
from aiokproto.share import ShareRecord
from aiokproto.simulation import Simulation
from aiokproto.types import Record
from tests.share.test_share_faults import broker, consumer
from tests.simulation.environment import until
from tests.simulation.test_running import PARTITIONS, RECORDS, ended, run


class Seen(Hooks):
    """Keeps the events of runs."""

    def __init__(self) -> None:
        self.events: list[RunProgressed] = []

    def on_run_progressed(self, event: RunProgressed) -> None:
        self.events.append(event)

    def sums(self) -> RunStats:
        """Return the sum of each number, over all events."""
        return RunStats(*(sum(numbers) for numbers in list(zip(*self.events, strict=True))[1:]))


class Letters:
    """Takes dead letters."""

    async def write(self, record: Record, error: BaseException, **of: Any) -> None:
        """Take the record, and forget it."""


def test_the_statistics_have_what_all_runs_have_done_and_what_one_is_doing() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        seen, gate, failed = Seen(), asyncio.Event(), set[tuple[int, int]]()

        async def handle(record: Record) -> None:
            place = (record.partition, record.offset)
            if record.offset == 1:
                raise PermanentError
            if record.offset == 2 and place not in failed:
                failed.add(place)
                raise ValueError("once")
            if record.offset == 9:
                await gate.wait()

        async with Consumer("t", **options, hooks=seen) as consumer:
            assert consumer.stats().run == RunStats(0, 0, 0, 0, 0, 0)
            task = asyncio.create_task(consumer.run(handle, retry=Retry(backoff_ms=10), dead_letter=Letters()))
            await until(lambda: consumer.stats().run.processed == PARTITIONS * 8)
            pending = PARTITIONS * (RECORDS - 9)
            expected = RunStats(PARTITIONS * 8, PARTITIONS, PARTITIONS, 2 * PARTITIONS, pending, PARTITIONS)
            assert consumer.stats().run == expected
            await asyncio.sleep(10)
            assert seen.sums() == expected
            gate.set()
            await until(lambda: consumer.stats().run.processed == PARTITIONS * (RECORDS - 1))
            await ended(consumer, task)
            expected = RunStats(PARTITIONS * (RECORDS - 1), PARTITIONS, PARTITIONS, 2 * PARTITIONS, 0, 0)
            assert consumer.stats().run == seen.sums() == expected
            task = asyncio.create_task(consumer.run(handle))
            await asyncio.sleep(1)
            await ended(consumer, task)
            assert consumer.stats().run == expected, "totals go on in the next run"

    run(program)


def test_what_a_run_has_not_finished_is_not_pending_after_it() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async def handle(record: Record) -> None:
            await asyncio.Event().wait()

        seen = Seen()
        async with Consumer("t", **options, hooks=seen) as consumer:
            task = asyncio.create_task(consumer.run(handle, drain_timeout_ms=0))
            await until(lambda: consumer.stats().run.running == PARTITIONS)
            await asyncio.sleep(10)
            assert seen.sums().pending == consumer.stats().run.pending == PARTITIONS * RECORDS
            await ended(consumer, task)
            assert consumer.stats().run == RunStats(0, 0, 0, 0, 0, 0)
            assert seen.sums() == RunStats(0, 0, 0, 0, 0, 0)

    run(program)


def test_the_statistics_of_a_share_consumer_have_its_runs() -> None:
    async def program() -> None:
        async def handle(record: ShareRecord) -> None:
            if record.offset == 0:
                raise ValueError("never")
            if record.offset == 1 and record.delivery_count == 1:
                raise OSError("later")
            if record.offset == 3:
                await gate.wait()

        def on_error(record: ShareRecord, error: Exception) -> Any:
            return "reject" if isinstance(error, ValueError) else "release"

        seen, gate = Seen(), asyncio.Event()
        async with broker(4) as cluster, consumer(cluster, hooks=seen) as jobs:
            task = asyncio.create_task(jobs.run(handle, on_error=on_error, redelivery_backoff_ms=10))
            await until(lambda: jobs.stats().run.running == 1 and jobs.stats().run.processed >= 1)
            gate.set()
            await until(lambda: jobs.stats().run.processed == 3)
            jobs.stop_run()
            await task
            assert jobs.stats().run == seen.sums() == RunStats(3, 1, 1, 2, 0, 0)

    Simulation(1).run(program())
