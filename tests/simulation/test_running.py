"""Handlers of `Consumer.run` that are slow, hang or are cancelled, and what happens to their partitions."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aiokproto import Consumer
from aiokproto.broker import Cluster
from aiokproto.consumer import PartitionStatus, RunSummary
from aiokproto.errors import ClientClosedError
from aiokproto.simulation import Simulation
from aiokproto.types import Record, TopicPartition
from tests.simulation import consuming, handling
from tests.simulation.cancelling import Suspensions
from tests.simulation.environment import Environment, until
from tests.simulation.members import member_of

PARTITIONS, RECORDS = 2, 30
FIRST = TopicPartition("t", 0)

Program = Callable[[Simulation, Cluster, dict[str, Any]], Coroutine[Any, Any, None]]


def run(program: Program, seed: int = 1) -> Simulation:
    """Run a program with a topic of two partitions with records, and a group."""

    async def main(simulation: Simulation) -> None:
        async with Cluster(1, config={"group.min.session.timeout.ms": 500}) as cluster:
            await cluster.create_topic("t", PARTITIONS)
            environment = Environment(simulation, cluster, "t")
            for partition in range(PARTITIONS):
                for number in range(RECORDS):
                    environment.append(partition, b"%d" % number)
            options = {
                "bootstrap_servers": cluster.bootstrap_servers,
                "group_id": "g",
                "auto_offset_reset": "earliest",
                "session_timeout_ms": 3000,
                "heartbeat_interval_ms": 300,
                "max_poll_interval_ms": 10_000,
                "auto_commit_interval_ms": 200,
            }
            await program(simulation, cluster, options)
        left = [task.get_name() for task in asyncio.all_tasks() if "aiokproto-consumer" in task.get_name()]
        assert not left

    simulation = Simulation(seed)
    simulation.run(main(simulation))
    return simulation


def committed(cluster: Cluster) -> dict[int, int]:
    group = cluster._running.groups.entry("g")
    return {partition: at.offset for (_, partition), at in (group.offsets if group else {}).items()}


async def ended(consumer: Consumer, task: asyncio.Task[RunSummary]) -> RunSummary:
    consumer.stop_run()
    return await task


def test_a_run_cancelled_wherever_it_suspends_commits_no_unfinished_record_and_loses_none() -> None:
    reached = Counter[int]()

    def cancelled_at(at: int, order: str) -> Program:
        async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
            done: set[tuple[int, int]] = set()
            enough = 0

            async def handle(record: Record) -> None:
                await asyncio.sleep(0.01 * (record.offset % 3))
                done.add((record.partition, record.offset))
                if len(done) == enough:
                    consumer.stop_run()

            async def first() -> None:
                await Suspensions().run(consumer.run(handle, order=order, drain_timeout_ms=100), at)  # type: ignore[call-overload]

            async with Consumer("t", **options) as consumer:
                task = asyncio.create_task(first())
                await asyncio.wait([task], timeout=0.7)
                reached[at] += task.cancelled()
                task.cancel()
                await asyncio.wait([task])
                for partition, offset in committed(cluster).items():
                    assert all((partition, each) in done for each in range(offset))
                enough = PARTITIONS * RECORDS
                if len(done) < enough:
                    await consumer.run(handle)
            assert len(done) == enough
            assert committed(cluster) == {0: RECORDS, 1: RECORDS}

        return program

    for at in range(1, 6):
        for order in ("partition", "none"):
            run(cancelled_at(at, order), seed=at)
    assert reached[1] == 2, "it was cancelled while it waited"


@pytest.mark.parametrize("milliseconds", range(3, 500, 61))
def test_a_run_cancelled_at_any_time_is_continued_without_a_gap(milliseconds: int) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        done: Counter[tuple[int, int]] = Counter()
        async with Consumer("t", **options) as consumer:

            async def handle(record: Record) -> None:
                await asyncio.sleep(0.01)
                done[record.partition, record.offset] += 1
                if len(done) == PARTITIONS * RECORDS:
                    consumer.stop_run()

            while len(done) < PARTITIONS * RECORDS:
                task = asyncio.create_task(consumer.run(handle))
                await asyncio.wait([task], timeout=milliseconds / 1000)
                task.cancel()
                await asyncio.wait([task])
                for partition, offset in committed(cluster).items():
                    assert all(done[partition, each] for each in range(offset))
        assert set(done.values()) == {1}, "the drain lets each handler end, in order: nothing comes twice"

    run(program, seed=milliseconds)


def test_slow_handlers_keep_their_partitions() -> None:
    """Together they take far longer than max_poll_interval_ms, and nothing is taken meanwhile. Each one is within
    it."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with Consumer("t", **options) as consumer:
            lost: list[object] = []
            consumer.subscribe("t", on_lost=lost.append, on_revoked=lost.append)

            async def handle(record: Record) -> None:
                await asyncio.sleep(7)

            task = asyncio.create_task(consumer.run(handle, max_pending_records=40))
            await asyncio.sleep(60)
            status = consumer.run_status()
            assert status is not None
            assert 20 < status.pending <= 40
            assert status.counts.processed == 2 * 8
            assert consumer.partition_state(FIRST).status is PartitionStatus.FULL
            assert not lost
            await ended(consumer, task)

    run(program)


def test_a_handler_that_hangs_is_reported_and_loses_its_partitions_after_max_poll_interval(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        options["max_poll_interval_ms"] = 100_000
        ends: list[float] = []
        calls: Counter[tuple[int, int]] = Counter()

        async def handle(record: Record) -> None:
            calls[record.partition, record.offset] += 1
            if (record.partition, record.offset) == (0, 3) and calls[0, 3] == 1:
                try:
                    await asyncio.Event().wait()
                finally:
                    ends.append(simulation.time())

        async with Consumer("t", **options) as consumer:
            task = asyncio.create_task(consumer.run(handle, drain_timeout_ms=1000))
            await until(lambda: calls[0, 3] == 1)
            began = simulation.time()
            await asyncio.sleep(95)
            reports = [each.getMessage() for each in caplog.records if "the handler of" in each.getMessage()]
            assert len(reports) == 3, "every half minute, not with each look"
            assert "t-0 at offset 3" in reports[0]
            assert "in task aiokproto-consumer-run-" in reports[0]
            assert not ends
            await until(lambda: calls[0, RECORDS - 1] == 1)
            # The member is back in the group: the record came again, and nothing else did.
            assert 100 <= ends[0] - began < 103
            assert {place for place, count in calls.items() if count > 1} == {(0, 3)}
            await ended(consumer, task)
        assert committed(cluster) == {0: RECORDS, 1: RECORDS}

    caplog.set_level(logging.WARNING)
    run(program)


def test_a_revocation_waits_for_running_handlers_and_cancels_them_after_the_drain_timeout() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        mine: list[tuple[int, int]] = []
        theirs: list[tuple[int, int]] = []
        cancelled: list[tuple[int, int]] = []

        async def slow(record: Record) -> None:
            try:
                await asyncio.sleep({(0, 4): 100, (1, 4): 1.0}.get((record.partition, record.offset), 0.3))
            except asyncio.CancelledError:
                cancelled.append((record.partition, record.offset))
                raise
            mine.append((record.partition, record.offset))

        async def quick(record: Record) -> None:
            theirs.append((record.partition, record.offset))

        async with Consumer("t", **options) as first:
            running = asyncio.create_task(first.run(slow, drain_timeout_ms=2000))
            await until(lambda: len(mine) == 8)
            began = simulation.time()
            async with Consumer("t", **options) as second:
                joining = asyncio.create_task(second.run(quick))
                await until(lambda: len(theirs) > 0)
                assert simulation.time() - began < 5
                assert cancelled == [(0, 4)]
                assert (1, 4) in mine, "it had the time to end"
                assert theirs[0] in [(0, 4), (1, 5)], "no later than at the record that was cancelled"
                assert not set(theirs) & set(mine)
                await ended(second, joining)
            await ended(first, running)

    run(program)


def test_a_handler_that_cannot_be_cancelled_does_not_hold_up_a_rebalance() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        options["max_poll_interval_ms"] = 300_000
        gate, theirs = asyncio.Event(), set[tuple[int, int]]()

        async def stubborn(record: Record) -> None:
            while not gate.is_set():
                try:
                    await gate.wait()
                except asyncio.CancelledError:
                    continue

        async def quick(record: Record) -> None:
            theirs.add((record.partition, record.offset))

        async with Consumer("t", **options) as first, Consumer(**options) as second:
            running = asyncio.create_task(first.run(stubborn, drain_timeout_ms=2000))
            await until(lambda: len(first.assignment()) == 2)
            await asyncio.sleep(1)
            began = simulation.time()
            second.subscribe("t")
            joining = asyncio.create_task(second.run(quick))
            await until(lambda: len(theirs) == RECORDS)
            assert simulation.time() - began < 5, "two seconds, and one more after the cancellation"
            assert {offset for _, offset in theirs} == set(range(RECORDS)), "nothing of it was committed"
            gate.set()
            await ended(second, joining)
            await ended(first, running)

    run(program)


def test_a_worker_that_is_cancelled_from_outside_ends_the_run_loudly() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async def handle(record: Record) -> None:
            pass

        for name in ("run-intake", "run-watch", "run-0"):
            options["group_id"] = name
            async with Consumer("t", **options) as consumer:
                task = asyncio.create_task(consumer.run(handle))
                await asyncio.sleep(3)
                (victim,) = (each for each in asyncio.all_tasks() if each.get_name() == f"aiokproto-consumer-{name}")
                victim.cancel()
                with pytest.raises(ClientClosedError, match=f"aiokproto-consumer-{name} was cancelled"):
                    await task

    run(program)


def test_handlers_of_lost_partitions_are_cancelled_at_once_and_their_records_come_again() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        cancelled: list[float] = []
        done: Counter[tuple[int, int]] = Counter()
        hang = True

        async def handle(record: Record) -> None:
            if hang and record.offset == 2:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    cancelled.append(simulation.time())
                    raise
            done[record.partition, record.offset] += 1

        async with Consumer("t", **options) as consumer:
            task = asyncio.create_task(consumer.run(handle, drain_timeout_ms=60_000))
            await until(lambda: len(done) == 4)
            await until(lambda: committed(cluster) == {0: 2, 1: 2})
            member = member_of(cluster)
            hang = False
            lost = simulation.time()
            cluster.expire_session("g", member)
            await until(lambda: len(cancelled) == 2)
            assert simulation.time() - lost < 1.0
            await until(lambda: len(done) == PARTITIONS * RECORDS)
            assert set(done.values()) == {1}
            await ended(consumer, task)

    run(program)


def test_a_handler_that_cannot_be_cancelled_keeps_its_partition_from_starting_again() -> None:
    """Two handlers of one partition at the same time would break its order."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        gate = asyncio.Event()
        running: Counter[int] = Counter()
        done: list[tuple[int, int]] = []

        async def handle(record: Record) -> None:
            running[record.partition] += 1
            assert running[record.partition] == 1
            if record.offset == 2:
                while not gate.is_set():
                    try:
                        await gate.wait()
                    except asyncio.CancelledError:
                        continue
            running[record.partition] -= 1
            done.append((record.partition, record.offset))

        async with Consumer("t", **options) as consumer:
            task = asyncio.create_task(consumer.run(handle))
            await until(lambda: len(done) == 4)
            consumer.seek(FIRST, 0)
            await asyncio.sleep(1)
            assert len(done) == 4
            gate.set()
            await until(lambda: len(done) == PARTITIONS * RECORDS + 3)
            await ended(consumer, task)

    run(program)


def test_a_paused_partition_starts_nothing_more_and_a_sought_one_starts_there() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        done: list[tuple[int, int]] = []

        async def handle(record: Record) -> None:
            await asyncio.sleep(0.1)
            done.append((record.partition, record.offset))
            if record.offset == 5 and record.partition == 0:
                consumer.pause(FIRST)

        async with Consumer("t", **options) as consumer:
            task = asyncio.create_task(consumer.run(handle))
            await until(lambda: (1, RECORDS - 1) in done)
            assert [offset for partition, offset in done if partition == 0] == list(range(6))
            consumer.seek(FIRST, 20)
            consumer.resume(FIRST)
            await until(lambda: (0, RECORDS - 1) in done)
            assert [offset for partition, offset in done if partition == 0] == [*range(6), *range(20, RECORDS)]
            await ended(consumer, task)
        assert committed(cluster) == {0: RECORDS, 1: RECORDS}

    run(program)


def test_a_batch_waits_for_its_records_as_long_as_it_may() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        environment, calls = Environment(simulation, cluster, "t"), []

        async def handle(records: list[Record]) -> None:
            calls.append((round(simulation.time() - began), [record.offset for record in records]))

        async with Consumer(**options) as consumer:
            consumer.assign(FIRST)
            consumer.seek(FIRST, RECORDS)
            began = simulation.time()
            task = asyncio.create_task(consumer.run(handle, batch=4, batch_wait_ms=10_000))
            for _ in range(4):
                environment.append(0, b"")
                await asyncio.sleep(2)
            for _ in range(3):
                environment.append(0, b"")
            await asyncio.sleep(12)
            environment.append(0, b"")
            await asyncio.sleep(1)
            await ended(consumer, task)
        assert calls == [(6, [30, 31, 32, 33]), (18, [34, 35, 36])]
        assert committed(cluster)[0] == 37

    run(program)


def test_batches_that_wait_are_handled_when_no_more_records_may_be_taken() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        done: list[int] = []

        async def handle(records: list[Record]) -> None:
            done.append(len(records))

        async with Consumer("t", **options) as consumer:
            run = consumer.run(handle, batch=1000, batch_wait_ms=3_600_000, max_pending_records=10)
            task = asyncio.create_task(run)
            await until(lambda: sum(done) == PARTITIONS * RECORDS)
            await ended(consumer, task)
        assert max(done) <= 10

    run(program)


def test_a_batch_that_waits_does_not_outlive_a_seek_or_the_run() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        done: list[list[int]] = []

        async def handle(records: list[Record]) -> None:
            done.append([record.offset for record in records])

        async with Consumer(**options) as consumer:
            consumer.assign(FIRST)
            consumer.seek(FIRST, 0)
            task = asyncio.create_task(consumer.run(handle, batch=100, batch_wait_ms=10_000))
            await asyncio.sleep(5)
            consumer.seek(FIRST, 25)
            await asyncio.sleep(7)
            assert done == []
            await asyncio.sleep(5)
            assert done == [list(range(25, RECORDS))]
            consumer.seek(FIRST, 0)
            await asyncio.sleep(5)
            await ended(consumer, task)
            assert len(done) == 1
            assert await consumer.position(FIRST) == 0
            assert len(await consumer.poll(5000, min_records=RECORDS)) == RECORDS

    run(program)


def test_a_second_cancellation_waits_for_no_handler() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async def handle(record: Record) -> None:
            await asyncio.sleep(1000)

        async with Consumer("t", **options) as consumer:
            task = asyncio.create_task(consumer.run(handle, drain_timeout_ms=500_000))
            await asyncio.sleep(5)
            began = simulation.time()
            task.cancel()
            await asyncio.sleep(1)
            assert not task.done()
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            assert simulation.time() - began < 2
        assert committed(cluster) == {0: 0, 1: 0}

    run(program)


def test_a_cancelled_call_has_not_failed_even_if_it_raises() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        calls: list[int] = []

        async def handle(record: Record) -> None:
            calls.append(record.offset)
            try:
                await asyncio.sleep(1000)
            except asyncio.CancelledError:
                raise ValueError("cleaning up failed") from None

        async with Consumer("t", **options) as consumer:
            task = asyncio.create_task(consumer.run(handle, order="none", concurrency=4, drain_timeout_ms=500))
            await until(lambda: len(calls) == 4)
            assert (await ended(consumer, task)).processed == 0
            assert len(calls) == 4, "and none starts in place of it"
        assert committed(cluster) == {0: 0, 1: 0}

    run(program)


def test_no_call_starts_once_the_run_is_being_ended() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        calls: list[int] = []

        async def handle(record: Record) -> None:
            calls.append(record.offset)
            await asyncio.sleep(0.1)

        async with Consumer("t", **options) as consumer:
            task = asyncio.create_task(consumer.run(handle, order="none", concurrency=4))
            await until(lambda: len(calls) == 12)
            assert (await ended(consumer, task)).processed == 12
            assert len(calls) == 12

    run(program)


def test_a_run_without_records_does_nothing() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async def handle(record: Record) -> None:
            pass

        async with Consumer("t", **options) as consumer:
            task = asyncio.create_task(consumer.run(handle))
            await asyncio.sleep(10)
            turns = simulation.loop.turns
            await asyncio.sleep(60)
            assert (simulation.loop.turns - turns) / 60 < 60, "it waits, and does not look again and again"
            await ended(consumer, task)

    run(program)


@pytest.mark.parametrize("seed", range(8))
def test_handlers_run_in_groups_of_the_consumer_protocol(seed: int) -> None:
    faults = consuming.schedule(seed, "consumer")
    handling.run(seed, faults, group_protocol="consumer", partition_assignment_strategy=None)
