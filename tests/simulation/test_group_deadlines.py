"""Calls of a consumer in a group end by their deadlines, and so does close(), even if something hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiokproto import Consumer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.fetch import FetchRequest
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.codec.messages.join_group import JoinGroupRequest
from aiokproto.codec.messages.leave_group import LeaveGroupRequest
from aiokproto.codec.messages.list_offsets import ListOffsetsRequest
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.codec.messages.offset_fetch import OffsetFetchRequest
from aiokproto.codec.messages.sync_group import SyncGroupRequest
from aiokproto.codec.schema import Request
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import ClientClosedError, CommitError, DeadlineError
from aiokproto.simulation import Simulation
from aiokproto.types import TopicPartition
from tests.simulation.members import Events, own_tasks, run, subscribed

FIRST = TopicPartition("t", 0)
GROUP_REQUESTS: list[type[Request[Any]]] = [
    FindCoordinatorRequest,
    JoinGroupRequest,
    SyncGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
]


def everything_dead(cluster: Cluster) -> Awaitable[None]:
    return cluster.kill_broker(0)


async def coordinator_silent(cluster: Cluster) -> None:
    for request in GROUP_REQUESTS:
        cluster.faults.drop(request)


async def rebalance_without_end(cluster: Cluster) -> None:
    cluster.faults.drop(JoinGroupRequest)
    cluster.faults.fail(HeartbeatRequest, ErrorCode.REBALANCE_IN_PROGRESS)
    cluster.faults.fail(OffsetCommitRequest, ErrorCode.REBALANCE_IN_PROGRESS)
    await asyncio.sleep(1)


PROBLEMS = [everything_dead, coordinator_silent, rebalance_without_end]

CALLS: dict[str, Callable[[Consumer], Awaitable[object]]] = {
    "commit": lambda consumer: consumer.commit({FIRST: 1}, timeout_ms=2000),
    "committed": lambda consumer: consumer.committed(FIRST, timeout_ms=2000),
    "position": lambda consumer: consumer.position(FIRST, timeout_ms=2000),
    "unsubscribe": lambda consumer: consumer.unsubscribe(timeout_ms=2000),
    "close": lambda consumer: consumer.close(2000),
}


def address(cluster: Cluster) -> tuple[str, int]:
    name, port = cluster.bootstrap_servers.split(":")
    return name, int(port)


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_ends_by_its_deadline(
    call: Callable[[Consumer], Awaitable[object]], problem: Callable[[Cluster], Awaitable[None]], strategy: str
) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        options |= {"partition_assignment_strategy": strategy}
        consumer = Consumer("t", **options)
        await consumer.start()
        await anext(consumer)
        await anext(consumer)
        await problem(cluster)
        await asyncio.sleep(0.5)
        began = simulation.time()
        try:
            await call(consumer)
        except DeadlineError:
            pass
        assert simulation.time() - began <= 2.1
        began = simulation.time()
        await consumer.close(1000)
        assert simulation.time() - began <= 1.1
        assert not own_tasks()

    run(program)


WAITING: dict[str, Callable[[Consumer], Awaitable[object]]] = {
    "commit": lambda consumer: consumer.commit({FIRST: 1}),
    "committed": lambda consumer: consumer.committed(FIRST),
    "position": lambda consumer: consumer.position(FIRST),
    "unsubscribe": lambda consumer: consumer.unsubscribe(),
    "end offsets": lambda consumer: consumer.end_offsets(FIRST),
    "poll": lambda consumer: consumer.poll(100_000),
}


@pytest.mark.parametrize("call", WAITING.values(), ids=WAITING)
def test_closing_ends_calls_that_wait(call: Callable[[Consumer], Awaitable[object]]) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        consumer = Consumer("t", **options)
        await consumer.start()
        await anext(consumer)
        await coordinator_silent(cluster)
        cluster.faults.drop(ListOffsetsRequest)
        cluster.faults.drop(FetchRequest)
        consumer.seek_to_beginning()
        waiting = asyncio.ensure_future(call(consumer))
        await asyncio.sleep(0.5)
        assert not waiting.done()
        await consumer.close(1000)
        await asyncio.wait((waiting,), timeout=0.1)
        assert waiting.done()
        assert isinstance(waiting.exception(), (ClientClosedError, CommitError))
        assert not own_tasks()

    run(program)


async def _sleep_for_ever(partitions: list[TopicPartition]) -> None:
    await asyncio.sleep(10_000)


async def _refuse_to_be_cancelled(partitions: list[TopicPartition]) -> None:
    until = asyncio.get_running_loop().time() + 100
    while (left := until - asyncio.get_running_loop().time()) > 0:
        try:
            await asyncio.sleep(left)
        except asyncio.CancelledError:
            pass


@pytest.mark.parametrize("callback", [_sleep_for_ever, _refuse_to_be_cancelled])
@pytest.mark.parametrize("name", ["on_assigned", "on_revoked"])
def test_closing_does_not_wait_for_a_callback_that_hangs(name: str, callback: Any) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        left = cluster.faults.watch(LeaveGroupRequest)
        consumer = Consumer(**options)
        consumer.subscribe("t", **{name: callback})
        await consumer.start()
        if name == "on_revoked":
            await anext(consumer)
        await asyncio.sleep(1)
        began = simulation.time()
        await consumer.close(4000)
        assert simulation.time() - began <= 4.1
        assert left.count == 1
        await asyncio.sleep(100)
        assert not own_tasks()

    run(program)


@pytest.mark.parametrize("after", [0.0, 0.3, 3.0, 5.0, 6.5])
def test_a_close_that_is_cancelled_ends_at_once(after: float) -> None:
    """It is cancelled while it commits, while a callback runs, or while it leaves the group."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async def slow(partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(2)

        consumer = Consumer(**options)
        consumer.subscribe("t", on_revoked=slow)
        await consumer.start()
        await anext(consumer)
        await coordinator_silent(cluster)
        closing = asyncio.create_task(consumer.close(8000))
        await asyncio.sleep(after)
        assert not closing.done()
        # Requests that are sent from now on don't arrive.
        simulation.network.link("client", address(cluster)).silence()
        closing.cancel()
        began = simulation.time()
        await asyncio.wait([closing])
        assert simulation.time() - began < 0.1
        assert not own_tasks()

    run(program)


def test_closing_leaves_the_group_although_its_commit_never_succeeds() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        left, events = cluster.faults.watch(LeaveGroupRequest), Events()
        cluster.faults.fail(OffsetCommitRequest, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        consumer = Consumer(**options)
        consumer.subscribe("t", **events.listeners())
        await consumer.start()
        await anext(consumer)
        began = simulation.time()
        await consumer.close(4000)
        assert simulation.time() - began <= 4.1
        assert left.count == 1
        assert events.seen == [("assigned", 2), ("revoked", 2)]

    run(program)


def test_closing_commits_finished_records_although_a_callback_hangs() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        consumer = Consumer(**options)
        consumer.subscribe("t", on_revoked=_sleep_for_ever)
        await consumer.start()
        record = await anext(consumer)
        await consumer.close(2000)
        async with subscribed(options) as other:
            partition = TopicPartition(record.topic, record.partition)
            committed = (await other.committed(partition))[partition]
            assert committed is not None
            assert committed.offset == record.offset + 1

    run(program)


def test_unsubscribing_ends_a_rebalance_that_would_not_end() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with subscribed(options) as consumer:
            await anext(consumer)
            consumer.pause()
            cluster.faults.drop(JoinGroupRequest)
            cluster.faults.fail(HeartbeatRequest, ErrorCode.REBALANCE_IN_PROGRESS, times=1)
            asking = asyncio.create_task(consumer.poll(1500))
            await asyncio.sleep(1)
            assert consumer._engine.member is not None
            assert "joining" in consumer._engine.member.state
            left = cluster.faults.watch(LeaveGroupRequest)
            await consumer.unsubscribe(timeout_ms=1000)
            assert left.count == 1
            await asyncio.wait([asking])

    run(program)
