"""Members with ``group_protocol="auto"`` whose coordinator no longer has the consumer protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import UnsupportedVersionError
from aiokproto.simulation import Simulation
from aiokproto.types import TopicPartition
from tests.simulation.members import Events, member_of, run, subscribed
from tests.simulation.protocols import restart_without_protocol, set_group_version

AUTO: dict[str, Any] = {"group_protocol": "auto", "auto_commit_interval_ms": 60_000}

Lose = Callable[[Cluster], Awaitable[None]]


async def disable(cluster: Cluster) -> None:
    set_group_version(cluster, 0)


async def replace(cluster: Cluster) -> None:
    await restart_without_protocol(cluster, 0)


WAYS = pytest.mark.parametrize("lose", [disable, replace])


async def read(consumer: Consumer, count: int) -> list[bytes | None]:
    """Return the values of the next records, sorted."""
    values: list[bytes | None] = []
    while len(values) < count:
        values += [record.value for record in await consumer.poll(1000, count - len(values))]
    return sorted(values, key=str)


async def write(cluster: Cluster, *values: bytes) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number, value in enumerate(values):
            await producer.send("t", value, partition=number % 2)


async def until_classic(consumer: Consumer, events: Events, expected: list[tuple[str, int]]) -> None:
    while events.seen != expected:
        await consumer.poll(100)
        assert len(events.seen) <= len(expected), events.seen


@WAYS
@pytest.mark.parametrize("static", [None, "i"])
def test_a_member_goes_on_with_the_classic_protocol_and_repeats_nothing(lose: Lose, static: str | None) -> None:
    """This happens long before its session would expire."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        events = Events()
        async with subscribed({**options, **AUTO, "group_instance_id": static}, **events.listeners()) as consumer:
            assert len(await read(consumer, 10)) == 10
            former = member_of(cluster)
            await lose(cluster)
            began = simulation.time()
            await until_classic(consumer, events, [("assigned", 2), ("revoked", 2), ("assigned", 2)])
            assert simulation.time() - began < 10
            assert member_of(cluster) == former, "it has taken its own place"
            await write(cluster, b"new", b"newer")
            assert await read(consumer, 2) == [b"new", b"newer"]
            assert (await consumer.commit()).committed
            assert await consumer.poll(5000) == []

    run(program)


@WAYS
@pytest.mark.parametrize("refusal", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.STALE_MEMBER_EPOCH])
def test_what_the_group_does_not_take_any_more_is_lost_and_comes_again(lose: Lose, refusal: ErrorCode) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        events = Events()
        async with subscribed(options | AUTO, **events.listeners()) as consumer:
            first = await read(consumer, 10)
            commits = cluster.faults.fail(OffsetCommitRequest, refusal)
            cluster.expire_session("g", member_of(cluster))
            await lose(cluster)
            await until_classic(consumer, events, [("assigned", 2), ("lost", 2)])
            commits.remove()
            assert await read(consumer, 10) == first
            assert events.seen == [("assigned", 2), ("lost", 2), ("assigned", 2)]

    run(program)


@WAYS
def test_delivery_goes_on_after_a_session_that_was_not_confirmed_any_more(lose: Lose) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        events = Events()
        async with subscribed(options | AUTO, **events.listeners()) as consumer:
            await read(consumer, 10)
            with cluster.faults.drop(ConsumerGroupHeartbeatRequest):
                await consumer.poll(60_000)
            await lose(cluster)
            while len(events.seen) < 3:
                await consumer.poll(100)
            await write(cluster, b"new")
            until, values = simulation.time() + 30, list[bytes | None]()
            while b"new" not in values:
                assert simulation.time() < until, f"nothing is delivered: {consumer.partition_state(('t', 0))}"
                values += [record.value for record in await consumer.poll(1000)]

    run(program)


@WAYS
def test_the_record_that_is_being_processed_is_finished_first(lose: Lose) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        events = Events()
        async with subscribed(options | AUTO, **events.listeners()) as consumer:
            seen = [(await anext(consumer)).value]
            await lose(cluster)
            await asyncio.sleep(8)
            assert events.seen == [("assigned", 2)]
            while len(seen) < 10:
                seen.append((await anext(consumer)).value)
            assert len(set(seen)) == 10
            assert events.seen == [("assigned", 2), ("revoked", 2), ("assigned", 2)]

    run(program)


@WAYS
def test_a_consumer_can_be_closed_while_its_member_gives_up_its_partitions(lose: Lose) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        calls = []

        async def revoked(partitions: list[TopicPartition]) -> None:
            calls.append(len(partitions))
            await asyncio.sleep(3)

        async with subscribed(options | AUTO, on_revoked=revoked) as consumer:
            await read(consumer, 10)
            await lose(cluster)
            while not calls:
                await consumer.poll(100)
            began = simulation.time()
        assert simulation.time() - began < 8
        assert calls == [2]
        async with Consumer(**options) as other:
            found = await other.committed(("t", 0), ("t", 1))
        assert [position and position.offset for position in found.values()] == [5, 5]

    run(program)


@WAYS
def test_a_member_that_is_to_use_the_consumer_protocol_ends_and_says_what_helps(lose: Lose) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with subscribed({**options, "group_protocol": "consumer"}) as consumer:
            await read(consumer, 10)
            await lose(cluster)
            with pytest.raises(UnsupportedVersionError, match='"auto" for clusters of both kinds'):
                await consumer.poll(60_000)

    run(program)
