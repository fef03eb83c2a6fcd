"""Rebalance callbacks: each partition is assigned once, and then revoked or lost once, whatever the callbacks do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiokproto import Consumer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import ClientClosedError, DeadlineError
from aiokproto.hooks import Hooks, Rebalanced
from aiokproto.simulation import Simulation
from aiokproto.types import TopicPartition
from tests.simulation.members import Events, member_of, run, subscribed

FIRST = TopicPartition("t", 0)


def test_partitions_are_lost_at_once_while_a_record_is_processed_that_a_rebalance_waits_for() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        options |= {"partition_assignment_strategy": "range", "enable_auto_commit": False}
        events = Events()
        listeners = events.listeners()
        refused: list[TopicPartition] = []

        async def on_lost(partitions: list[TopicPartition]) -> None:
            listeners["on_lost"](partitions)
            began = simulation.time()
            assert (await zombie.commit({partitions[0]: 1})).lost == [partitions[0]]
            assert simulation.time() == began, "no request was needed"
            refused.append(partitions[0])

        async with subscribed(options, **{**listeners, "on_lost": on_lost}) as zombie:
            await anext(zombie)
            member = member_of(cluster)
            async with subscribed(options):
                await asyncio.sleep(0.6)
                assert events.seen == [("assigned", 2)], "the rebalance waits for the record"
                cluster.expire_session("g", member)
                await asyncio.sleep(0.5)
                assert events.seen[:2] == [("assigned", 2), ("lost", 2)]
                assert refused

    run(program)


def test_a_callback_may_ask_for_positions_seek_pause_and_commit() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        positions: list[int] = []

        async def on_assigned(partitions: list[TopicPartition]) -> None:
            consumer.pause(TopicPartition("t", 1))
            positions.append(await consumer.position(FIRST, timeout_ms=1000))
            consumer.seek(FIRST, 3)
            positions.append(await consumer.position(FIRST, timeout_ms=1000))
            await consumer.commit({FIRST: 2})

        async with subscribed(options, on_assigned=on_assigned) as consumer:
            record = await anext(consumer)
            assert (record.partition, record.offset) == (0, 3)
            assert positions == [0, 3]
            committed = (await consumer.committed(FIRST))[FIRST]
            assert committed is not None
            assert committed.offset == 2

    run(program)


CALLS: dict[str, Callable[[Consumer], Awaitable[object]]] = {
    "records": lambda consumer: anext(consumer),
    "records, in a task": lambda consumer: asyncio.wait_for(consumer.poll(), 5),
    "close": lambda consumer: consumer.close(),
    "close, in a task": lambda consumer: asyncio.ensure_future(consumer.close()),
    "unsubscribe": lambda consumer: consumer.unsubscribe(),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_callback_that_waits_for_itself_gets_an_error(call: Callable[[Consumer], Awaitable[object]]) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        errors: list[BaseException | None] = []

        async def on_assigned(partitions: list[TopicPartition]) -> None:
            try:
                await call(consumer)
            except RuntimeError as error:
                errors.append(error)

        async with subscribed(options, on_assigned=on_assigned) as consumer:
            assert (await asyncio.wait_for(anext(consumer), 2)).offset == 0
        (error,) = errors
        assert "rebalance callback" in str(error)

    run(program)


def test_a_task_that_a_callback_has_started_may_read_after_the_callback() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        started: list[asyncio.Task[Any]] = []

        async def read() -> Any:
            await asyncio.sleep(0.5)
            return await anext(consumer)

        def on_assigned(partitions: list[TopicPartition]) -> None:
            started.append(asyncio.create_task(read()))

        async with subscribed(options, on_assigned=on_assigned) as consumer:
            await asyncio.sleep(2)
            assert started[0].result().offset == 0

    run(program)


@pytest.mark.parametrize("bug", [ValueError("a bug"), DeadlineError("a bug")], ids=repr)
@pytest.mark.parametrize("fails", ["assigned", "revoked", "lost"])
def test_a_callback_that_raises_was_called_and_ends_the_consumer(
    fails: str, bug: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        options |= {"partition_assignment_strategy": "range"}
        events = Events()
        listeners = events.listeners()
        inner = listeners[f"on_{fails}"]

        def fail(partitions: list[TopicPartition]) -> None:
            inner(partitions)
            raise bug

        consumer = Consumer(**options)
        consumer.subscribe("t", **{**listeners, f"on_{fails}": fail})
        await consumer.start()
        consuming = asyncio.create_task(_consume(consumer))
        await asyncio.sleep(1)
        if fails == "revoked":
            async with subscribed(options):
                await asyncio.sleep(1)
        elif fails == "lost":
            cluster.expire_session("g", member_of(cluster))
            await asyncio.sleep(1)
        with pytest.raises(ClientClosedError, match=rf"on_{fails} raised .*a bug.*: the consumer has ended") as caught:
            await consuming
        assert caught.value.__cause__ is bug
        assert "in fail" in caplog.text, "a traceback is logged"
        with pytest.raises(ClientClosedError, match=f"on_{fails} raised"):
            await consumer.poll()
        await consumer.close()
        assert events.seen == [("assigned", 2), ("lost" if fails == "lost" else "revoked", 2)]

    run(program)


async def _consume(consumer: Consumer) -> None:
    async for _ in consumer:
        pass


@pytest.mark.parametrize("cancel", [False, True], ids=["closed", "close cancelled"])
@pytest.mark.parametrize("name", ["assigned", "revoked"])
def test_closing_while_a_callback_runs_calls_no_callback_twice(name: str, cancel: bool) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        options |= {"partition_assignment_strategy": "range"}
        events = Events()
        listeners = events.listeners()
        inner, entered, done = listeners[f"on_{name}"], asyncio.Event(), []

        async def slow(partitions: list[TopicPartition]) -> None:
            inner(partitions)
            entered.set()
            await asyncio.sleep(1)
            done.append(name)

        consumer = Consumer(**options)
        consumer.subscribe("t", **{**listeners, f"on_{name}": slow})
        await consumer.start()
        consuming = asyncio.create_task(_consume(consumer))
        if name == "revoked":
            await asyncio.sleep(1)
            async with subscribed(options):
                await entered.wait()
                await _close(consumer, cancel)
        else:
            await entered.wait()
            await _close(consumer, cancel)
        await asyncio.wait([consuming])
        assert events.seen == [("assigned", 2), ("revoked", 2)]
        assert cancel or done[0] == name, "it was let finish"

    run(program)


class _Reports(Hooks):
    """The rebalances that hooks see."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def on_rebalanced(self, event: Rebalanced) -> None:
        self.seen.append((event.kind, len(event.partitions)))


@pytest.mark.parametrize("while_", ["a record is processed", "a callback runs"])
def test_closing_during_a_revocation_reports_it_once(while_: str) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        options |= {"partition_assignment_strategy": "range"}
        events, reports = Events(), _Reports()
        listeners = events.listeners()
        inner = listeners["on_revoked"]

        async def slow(partitions: list[TopicPartition]) -> None:
            inner(partitions)
            await asyncio.sleep(1)

        if while_ == "a callback runs":
            listeners["on_revoked"] = slow
        async with subscribed({**options, "hooks": [reports]}, **listeners) as consumer:
            await anext(consumer)
            async with subscribed(options):
                await asyncio.sleep(0.5)
                if while_ == "a callback runs":
                    reading = asyncio.create_task(_consume(consumer))
                    await asyncio.sleep(0.5)
                    await consumer.close()
                    await asyncio.wait([reading])
                else:
                    await consumer.close()
        assert events.seen == [("assigned", 2), ("revoked", 2)]
        assert reports.seen == [("assigned", 2), ("revoked", 2)]

    run(program)


async def _close(consumer: Consumer, cancel: bool) -> None:
    closing = asyncio.create_task(consumer.close(8000))
    await asyncio.sleep(0.3)
    if cancel:
        closing.cancel()
    await asyncio.wait([closing])


def test_a_rebalance_and_a_committing_callback_do_not_deadlock() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        errors: list[BaseException | None] = []

        async def on_assigned(partitions: list[TopicPartition]) -> None:
            if errors:
                return
            rebalancing = cluster.faults.fail(OffsetCommitRequest, ErrorCode.REBALANCE_IN_PROGRESS)
            errors.append((await consumer.commit({FIRST: 1})).outcomes[FIRST].error)
            rebalancing.remove()

        async with subscribed(options, on_assigned=on_assigned) as consumer:
            await asyncio.wait_for(anext(consumer), 2)
        assert "callback" in str(errors[0])

    run(program)
