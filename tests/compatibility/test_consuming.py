"""Consuming from brokers of every age: positions, times, committed offsets, groups of each kind."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from aiokproto import Client, Consumer, Producer, ShareConsumer
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokproto.types import TopicPartition
from tests.compatibility.matrix import At, row
from tests.kafka.releases import number
from tests.net.waiting import until
from tests.timeouts import LONG_TIMEOUT

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

LOG, GROUPS = "Reading and offsets", "Groups"
GROUP_CONFIG = 32
LONGEST_SESSION = 30_000
"""What 0.9 and 0.10.0 allow (``group.max.session.timeout.ms``); the default of clients is longer."""


async def write(at: At, count: int, **options: Any) -> None:
    async with Producer(linger_ms=5, **at.options) as producer:
        values = [b"%d" % place for place in range(count)]
        outcomes = await producer.send_many(at.topic, values, partition=0)
        assert not outcomes.errors
        await producer.send(at.topic, b"other", partition=1)


def member(at: At, **options: Any) -> Consumer[bytes, bytes]:
    given = {"group_id": at.topic, "auto_offset_reset": "earliest", "session_timeout_ms": LONGEST_SESSION, **options}
    if given.get("group_protocol") == "consumer":
        del given["session_timeout_ms"]
    return Consumer(at.topic, **at.options, **given)


async def values(consumer: Consumer[bytes, bytes], count: int) -> set[bytes | None]:
    found: set[bytes | None] = set()
    async for record in consumer:
        found.add(record.value)
        if len(found) >= count:
            return found
    raise AssertionError


@row(LOG, "first and last offset, seek")
async def test_ends_and_seek(at: At) -> None:
    await write(at, 10)
    async with Consumer(auto_offset_reset="earliest", **at.options) as consumer:
        first = TopicPartition(at.topic, 0)
        consumer.assign(first)
        assert await consumer.beginning_offsets(first) == {first: 0}
        assert await consumer.end_offsets(first) == {first: 10}
        consumer.seek(first, 7)
        assert await values(consumer, 3) == {b"7", b"8", b"9"}
        consumer.seek_to_beginning(first)
        assert await values(consumer, 10) == {b"%d" % place for place in range(10)}


@row(LOG, 'committed records only (`isolation_level="read_committed"`): all, where there are no transactions')
async def test_read_committed(at: At) -> None:
    await write(at, 3)
    async with Consumer(auto_offset_reset="earliest", isolation_level="read_committed", **at.options) as consumer:
        first = TopicPartition(at.topic, 0)
        consumer.assign(first)
        assert await values(consumer, 3) == {b"0", b"1", b"2"}
        assert await consumer.end_offsets(first) == {first: 3}


@row(LOG, "offsets for a time", "0.10.1", "offsets for a time need")
async def test_offsets_for_a_time(at: At) -> None:
    # A broker may refuse timestamps that are far from its clock.
    base = int(time.time() * 1000) - 60_000
    async with Producer(**at.options) as producer:
        timed = number(at.release) >= (0, 10)
        for place in range(5):
            moment = base + 1000 * place if timed else None
            await producer.send(at.topic, b"%d" % place, partition=0, timestamp=moment)
    async with Consumer(**at.options) as consumer:
        first = TopicPartition(at.topic, 0)
        consumer.assign(first)
        found = (await consumer.offsets_for_times({first: base + 1500}))[first]
        assert found is not None
        assert (found.offset, found.timestamp) == (2, base + 2000)
        assert await consumer.offsets_for_times({first: base + 99_000}) == {first: None}


@row(LOG, "seek to a time", "0.10.1", "offsets for a time need")
async def test_seek_to_a_time(at: At) -> None:
    await write(at, 3)
    async with Consumer(**at.options) as consumer:
        first = TopicPartition(at.topic, 0)
        consumer.assign(first)
        consumer.seek_to_time(1_600_000_000_000, first)
        assert await values(consumer, 3) == {b"0", b"1", b"2"}


@row(LOG, "commit and resume without a group's membership")
async def test_commit_of_assigned_partitions(at: At) -> None:
    await write(at, 10)
    first = TopicPartition(at.topic, 0)
    options = {"group_id": at.topic, "auto_offset_reset": "earliest", "enable_auto_commit": False, **at.options}
    async with Consumer(**options) as consumer:
        consumer.assign(first)
        assert await values(consumer, 4) == {b"0", b"1", b"2", b"3"}
        await consumer.commit({first: 4})
    async with Consumer(**options) as consumer:
        consumer.assign(first)
        assert await values(consumer, 6) == {b"4", b"5", b"6", b"7", b"8", b"9"}


@row(GROUPS, "join, commit, resume", "0.9", "membership in a group needs")
async def test_a_group(at: At) -> None:
    await write(at, 5)
    async with member(at) as consumer:
        assert await values(consumer, 6) == {b"0", b"1", b"2", b"3", b"4", b"other"}
    async with Producer(**at.options) as producer:
        await producer.send(at.topic, b"new", partition=0)
    async with member(at) as consumer:
        assert await values(consumer, 1) == {b"new"}


async def two_members(at: At, **options: Any) -> None:
    """Each member gets one partition, and the other's when that one has left."""
    await write(at, 1)
    whole = {TopicPartition(at.topic, 0), TopicPartition(at.topic, 1)}

    async def follow(consumer: Consumer[bytes, bytes]) -> None:
        async for _ in consumer:
            pass

    async with member(at, **options) as one:
        following = [asyncio.create_task(follow(one))]
        try:
            await until(lambda: one.assignment() == whole or following[0].done())
            if following[0].done():
                await following[0]
            async with member(at, **options) as other:
                following.append(asyncio.create_task(follow(other)))
                await until(lambda: len(one.assignment()) == len(other.assignment()) == 1)
                assert one.assignment() | other.assignment() == whole
                following.pop().cancel()
            await until(lambda: one.assignment() == whole)
        finally:
            for task in following:
                task.cancel()
            await asyncio.gather(*following, return_exceptions=True)


@row(GROUPS, "rebalance", "0.9", "membership in a group needs")
async def test_a_rebalance(at: At) -> None:
    await two_members(at, heartbeat_interval_ms=200)


@row(GROUPS, "cooperative rebalance", "0.9", "membership in a group needs")
async def test_a_cooperative_rebalance(at: At) -> None:
    await two_members(at, heartbeat_interval_ms=200, partition_assignment_strategy=["cooperative-sticky"])


@row(GROUPS, "static members (`group_instance_id`)", "2.3", "group_instance_id needs")
async def test_a_static_member(at: At) -> None:
    for count in (1, 2):
        await write(at, count)
        async with member(at, group_instance_id="one") as consumer:
            assert await values(consumer, 1 + count) >= {b"0", b"other"}


@row(GROUPS, 'the consumer protocol (`group_protocol="consumer"`, KIP-848)', "4.0", "group_protocol=.*needs")
async def test_the_consumer_protocol(at: At) -> None:
    await two_members(at, group_protocol="consumer")


@row(GROUPS, 'the consumer protocol where the brokers have it (`group_protocol="auto"`)', "0.9", "membership")
async def test_the_protocol_that_the_brokers_have(at: At) -> None:
    await write(at, 2)
    async with member(at, group_protocol="auto") as consumer:
        assert await values(consumer, 3) == {b"0", b"1", b"other"}


@row(GROUPS, "share groups (KIP-932)", "4.1", "share groups need")
async def test_share_groups(at: At) -> None:
    await write(at, 3)
    if number(at.release) >= (2, 3):
        async with Client(**at.options) as client:
            earliest = AlterableConfig(name="share.auto.offset.reset", value="earliest")
            resource = AlterConfigsResource(resource_type=GROUP_CONFIG, resource_name=at.topic, configs=[earliest])
            await client.request(IncrementalAlterConfigsRequest(resources=[resource]))
    async with ShareConsumer(at.topic, group_id=at.topic, **at.options) as consumer:
        found = [(await asyncio.wait_for(anext(consumer), LONG_TIMEOUT)).value for _ in range(4)]
        assert set(found) == {b"0", b"1", b"2", b"other"}
