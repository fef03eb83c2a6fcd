"""Reading up to the end of the log, and knowing the end without a request, on both kinds of cluster."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.consumer import LogState
from aiokproto.errors import ConfigurationError, DeadlineError
from aiokproto.types import TopicPartition
from tests.behaviour.feed import fill
from tests.clusters import BehaviourCluster
from tests.timeouts import LONG_TIMEOUT

LONG = LONG_TIMEOUT * 1000


def reader(cluster: BehaviourCluster, *topics: str, isolation: str = "read_uncommitted") -> Consumer:
    return Consumer(
        *topics,
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level=isolation,  # type: ignore[arg-type]
        default_api_timeout_ms=LONG,
    )


async def test_it_ends_where_the_log_ended_when_it_began(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=3)
    await fill(cluster, topic, 25, [0, 1])
    async with reader(cluster, topic) as consumer:
        seen: list[tuple[int, int]] = []
        async for record in consumer.read_to_end():
            if not seen:
                # For all that the consumer knows, these records belong to the batch that it reads.
                await fill(cluster, topic, 5, [0, 1, 2], start=25)
            seen.append((record.partition, record.offset))
        assert sorted(seen) == [(partition, offset) for partition in (0, 1) for offset in range(25)]
        rest = [(record.partition, record.offset) async for record in consumer.read_to_end()]
        assert sorted(rest) == [
            *((partition, offset) for partition in (0, 1) for offset in range(25, 30)),
            *((2, offset) for offset in range(5)),
        ]
        assert [record async for record in consumer.read_to_end()] == []
        assert all(consumer.at_end((topic, number)) for number in range(3))


async def test_only_the_given_partitions_are_read_and_the_others_later(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    await fill(cluster, topic, 25, [0, 1])
    async with reader(cluster, topic) as consumer:
        seen = [(record.partition, record.offset) async for record in consumer.read_to_end((topic, 1))]
        assert seen == [(1, offset) for offset in range(25)]
        assert [record.partition async for record in consumer.read_to_end()] == [0] * 25


async def test_transaction_markers_and_aborted_records_at_the_end(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 3)
    async with Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=topic) as producer:
        async with producer.transaction() as txn:
            await txn.send(topic, b"committed")
        with suppress(ZeroDivisionError):
            async with producer.transaction() as txn:
                await txn.send(topic, b"aborted")
                raise ZeroDivisionError
        async with reader(cluster, topic, isolation="read_committed") as consumer:
            values = [record.value async for record in consumer.read_to_end()]
        async with reader(cluster, topic) as consumer:
            everything = [record.value async for record in consumer.read_to_end()]
            # There are three records, one of each transaction, and its marker.
            assert await consumer.position((topic, 0)) == 7
    assert values == [b"value-0", b"value-1", b"value-2", b"committed"]
    assert everything == [*values, b"aborted"]


async def test_an_open_transaction_is_the_end_for_read_committed(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    at = TopicPartition(topic, 0)
    await fill(cluster, topic, 3)
    producer = Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=topic)
    consumer = reader(cluster, topic, isolation="read_committed")
    async with producer, producer.transaction() as txn:
        await txn.send(topic, b"open")
        async with consumer:
            assert len([record async for record in consumer.read_to_end()]) == 3
            while consumer.log_state(at).high_watermark != 4:
                assert await consumer.poll(10) == []
            state = consumer.log_state(at)
            assert state == LogState(3, 0, 3, 4, 0, state.leader_epoch)
            assert consumer.at_end(at)


async def test_a_partition_that_does_not_go_on_raises_after_the_timeout(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 3)
    async with reader(cluster, topic) as consumer:
        consumer.pause((topic, 0))
        with pytest.raises(DeadlineError, match=f"the end of {topic}-0 is not reached: {topic}-0: paused"):
            await anext(consumer.read_to_end(timeout_ms=2000))
        consumer.resume()
        assert len([record async for record in consumer.read_to_end()]) == 3


async def test_partitions_must_be_assigned(cluster: BehaviourCluster, topic: str) -> None:
    async with reader(cluster) as consumer:
        with pytest.raises(ConfigurationError, match="no partition is assigned yet"):
            consumer.read_to_end()
        with pytest.raises(ConfigurationError, match="is not assigned"):
            consumer.read_to_end((topic, 0))
        with pytest.raises(ConfigurationError, match="is not assigned"):
            consumer.at_end((topic, 0))


async def test_what_is_not_fetched_yet_is_unknown(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    async with reader(cluster) as consumer:
        consumer.assign((topic, 0))
        assert consumer.log_state((topic, 0)) == LogState(None, None, None, None, None, None)
        assert not consumer.at_end((topic, 0))


async def test_records_end_when_none_came_in_time_and_can_go_on(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 25)
    async with reader(cluster, topic) as consumer:
        records = consumer.records(timeout_ms=LONG)
        first = [(await anext(records)).offset for _ in range(5)]
        # The others are in the buffer.
        later = [record.offset async for record in consumer.records(timeout_ms=0)]
        assert first + later == list(range(5 + len(later)))
        rest = [record.offset async for record in consumer.records(timeout_ms=1000)]
        assert first + later + rest == list(range(25))
        waiting = asyncio.ensure_future(anext(records))
        await fill(cluster, topic, 1, start=25)
        assert (await waiting).offset == 25


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
async def test_a_partition_without_records_is_at_its_end_at_once(
    cluster: BehaviourCluster, topic: str, isolation: str
) -> None:
    await cluster.create_topic(topic, partitions=2)
    await fill(cluster, topic, 3, [0])
    async with reader(cluster, topic, isolation=isolation) as consumer:
        assert len([record async for record in consumer.read_to_end()]) == 3
        assert [consumer.at_end((topic, number)) for number in range(2)] == [True, True]
        assert consumer.lag((topic, 1)) == 0


async def test_a_member_waits_for_its_first_assignment(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    await fill(cluster, topic, 3, [0, 1])
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": topic}
    async with Consumer(topic, auto_offset_reset="earliest", default_api_timeout_ms=LONG, **options) as consumer:
        assert not consumer.assignment()
        assert len([record async for record in consumer.read_to_end()]) == 6


async def test_a_member_without_partitions_has_nothing_to_read(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": topic}
    async with Consumer(topic, auto_offset_reset="earliest", **options) as first:
        async for _ in first.read_to_end(timeout_ms=LONG):
            pass
        await first.position((topic, 0))
        async with Consumer(topic, **options) as second:
            with pytest.raises(DeadlineError, match="the group has assigned no partition"):
                await anext(second.read_to_end(timeout_ms=10))
