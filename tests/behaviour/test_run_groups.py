"""Handlers in groups whose members and brokers come and go, on the embedded broker and on real Kafka."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from aiokproto import Consumer
from aiokproto.consumer import RunSummary
from aiokproto.types import Record, TopicPartition
from tests.behaviour.feed import fill
from tests.behaviour.test_run import committed, member, running, until
from tests.clusters import BehaviourCluster

Place = tuple[int, int]


class Group:
    """What the members of a group have handled, each partition in order."""

    def __init__(self) -> None:
        self.handled: Counter[Place] = Counter()
        self.by: dict[str, int] = Counter()

    def handler(self, name: str) -> Callable[[Record], object]:
        async def handle(record: Record) -> None:
            await asyncio.sleep(0)
            self.handled[record.partition, record.offset] += 1
            self.by[name] += 1

        return handle


@asynccontextmanager
async def joined(
    cluster: BehaviourCluster, topic: str, group: Group, name: str, strategy: str
) -> AsyncIterator[tuple[Consumer, asyncio.Task[RunSummary]]]:
    consumer = member(cluster, topic, partition_assignment_strategy=strategy, auto_commit_interval_ms=100)
    async with running(consumer, group.handler(name), max_pending_records=50) as run:
        yield consumer, run


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
async def test_members_that_join_and_leave_handle_each_record_once(
    cluster: BehaviourCluster, topic: str, strategy: str
) -> None:
    """Nothing fails. Handlers of revoked partitions end, and their offsets are committed before the partitions are
    given up."""
    partitions = 4
    await cluster.create_topic(topic, partitions=partitions)
    group = Group()

    async def more(start: int) -> None:
        await fill(cluster, topic, 50, range(partitions), start=start)

    await more(0)
    async with joined(cluster, topic, group, "first", strategy) as (first, _):
        await until(lambda: len(group.handled) >= 50)
        async with joined(cluster, topic, group, "second", strategy) as (second, run):
            await more(50)
            await until(lambda: len(second.assignment()) == 2 and len(first.assignment()) == 2)
            await more(100)
            await until(lambda: len(group.handled) == partitions * 150)
            second.stop_run()
            summary = await run
            assert summary.processed == group.by["second"] > 0
        await more(150)
        await until(lambda: len(group.handled) == partitions * 200)
    assert set(group.handled.values()) == {1}
    assert await committed(cluster, topic, partitions) == [200] * partitions


@pytest.mark.exclusive
async def test_leaders_that_move_and_brokers_that_stop_lose_no_record(cluster3: BehaviourCluster, topic: str) -> None:
    await cluster3.create_topic(topic, partitions=3, replication=3)
    await fill(cluster3, topic, 100, range(3))
    group = Group()
    consumer = member(cluster3, topic)
    async with running(consumer, group.handler("one"), order="none", concurrency=8):
        await until(lambda: len(group.handled) >= 50)
        await cluster3.move_leader(topic, 0)
        await fill(cluster3, topic, 100, range(3), start=100)
        await cluster3.stop_broker(cluster3.broker_ids[1])
        await until(lambda: len(group.handled) == 600)
        await cluster3.start_broker(cluster3.broker_ids[1])
        status = consumer.run_status()
        assert status is not None
        await until(lambda: not status_of(consumer))
        await consumer.commit()
        assert await committed(cluster3, topic, 3) == [200] * 3


def status_of(consumer: Consumer) -> int:
    """Return how many records are pending."""
    status = consumer.run_status()
    assert status is not None
    return sum(each.pending for each in status.partitions.values())


async def test_a_new_member_starts_where_the_handlers_of_the_last_one_ended(
    cluster: BehaviourCluster, topic: str
) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 30)
    group = Group()

    async def handle(record: Record) -> None:
        group.handled[record.partition, record.offset] += 1
        if record.offset == 11:
            consumer.stop_run()

    async with member(cluster, topic) as consumer:
        await consumer.run(handle)
    async with joined(cluster, topic, group, "second", "range") as (second, _):
        await until(lambda: len(group.handled) == 30)
        assert second.assignment() == {TopicPartition(topic, 0)}
    assert set(group.handled.values()) == {1}
