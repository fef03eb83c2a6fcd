"""Partitions assigned by `assign()` in a consumer with a group id: commits, and changes of the assignment."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokproto import Consumer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.errors import ConfigurationError, DeadlineError, UnknownTopicError
from aiokproto.simulation import Simulation
from aiokproto.types import TopicPartition
from tests.simulation.members import run, subscribed

ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


async def read(consumer: Consumer, count: int) -> list[int]:
    return [(await asyncio.wait_for(anext(consumer), 5)).offset for _ in range(count)]


def test_partitions_are_assigned_only_once_the_group_is_left() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async def slow(partitions: list[TopicPartition]) -> None:
            await asyncio.sleep(3)

        async with subscribed(options, on_revoked=slow) as consumer:
            await anext(consumer)
            with pytest.raises(DeadlineError):
                await consumer.unsubscribe(timeout_ms=500)
            # The group would otherwise take away the assigned partitions at the end.
            with pytest.raises(ConfigurationError, match="not left"):
                consumer.assign(ZERO)
            await consumer.unsubscribe()
            consumer.assign(ZERO)
            assert await read(consumer, 1) == [1]

    run(program)


@pytest.mark.parametrize("answered", [True, False])
def test_finished_records_are_committed_after_another_partition_was_assigned(answered: bool) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with Consumer(**options) as consumer:
            consumer.assign(ZERO)
            await read(consumer, 3)
            if not answered:
                cluster.faults.drop(OffsetCommitRequest, times=1)
            consumer.assign(ONE)
            await read(consumer, 2)
            if answered:
                await asyncio.sleep(6)
                # The third record was still being processed.
                found = await consumer.committed(ZERO, ONE)
                assert [each and each.offset for each in found.values()] == [2, 1]
            else:
                await asyncio.sleep(30)
        async with Consumer(**options) as consumer:
            found = await consumer.committed(ZERO, ONE)
            assert [each and each.offset for each in found.values()] == [2, 2]

    run(program)


def test_finished_records_are_committed_after_the_last_partition_was_unassigned() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with Consumer(**options) as consumer:
            consumer.assign(ZERO)
            await read(consumer, 3)
            await consumer.unsubscribe()
            assert not consumer.assignment()
            found = await consumer.committed(ZERO)
            assert [each and each.offset for each in found.values()] == [3]

    run(program)


def test_a_partition_that_is_assigned_again_continues_after_its_finished_records() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with Consumer(**options) as consumer:
            consumer.assign(ZERO)
            assert await read(consumer, 3) == [0, 1, 2]
            consumer.assign(ONE)
            consumer.assign(ZERO)
            assert await read(consumer, 1) == [2]

    run(program)


def test_nothing_is_committed_automatically_if_that_is_disabled() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with Consumer(**options, enable_auto_commit=False) as consumer:
            consumer.assign(ZERO)
            await read(consumer, 3)
            consumer.assign(ONE)
            await consumer.unsubscribe()
            assert await consumer.committed(ZERO, ONE) == {ZERO: None, ONE: None}

    run(program)


def test_the_error_of_an_assigned_partition_that_does_not_exist_says_how_many_there_are() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with Consumer(**options) as consumer:
            consumer.assign(("t", 7))
            await consumer.poll(1000)
            assert "the topic has 2 partitions" in str(consumer.partition_state(("t", 7)))
            with pytest.raises(UnknownTopicError, match=r"t-7: .*: the topic has 2 partitions"):
                await consumer.poll(10_000)

    run(program)
