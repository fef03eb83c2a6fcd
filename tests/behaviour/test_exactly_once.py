"""Exactly-once sessions on the embedded broker and on real Kafka: each input is in the output once."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter

import pytest

from aiokproto.consumer import Consumer
from aiokproto.errors import ConfigurationError, TransactionAbortedError
from aiokproto.exactly_once import ExactlyOnce
from aiokproto.producer import Producer, Transaction
from aiokproto.types import Record
from tests.clusters import BehaviourCluster

COUNT = 300


@pytest.fixture
async def input_topic(cluster: BehaviourCluster, topic: str) -> str:
    """A topic of three partitions with the numbers below ``COUNT``."""
    await cluster.create_topic(topic, partitions=3)
    await cluster.create_topic(f"{topic}-out", partitions=2)
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(COUNT):
            await producer.post(topic, b"%d" % number, partition=number % 3)
    return topic


def session(cluster: BehaviourCluster, topic: str, name: str = "one") -> ExactlyOnce:
    servers = cluster.bootstrap_servers
    consumer = Consumer(
        topic,
        bootstrap_servers=servers,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    return ExactlyOnce(consumer, Producer(bootstrap_servers=servers, transactional_id=f"{topic}-{name}"))


async def results(cluster: BehaviourCluster, topic: str) -> Counter[int]:
    """The committed output, once the group has committed all of the input."""
    out = f"{topic}-out"
    reader = Consumer(
        out, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    found: Counter[int] = Counter()
    async with reader:
        partitions = await reader.partitions_for_topic(out)
        ends = await reader.end_offsets(*partitions)
        while any([await reader.position(each) < ends[each] for each in partitions]):
            found.update(int(record.value or b"") for record in await reader.poll(100))
    return found


async def copy(records: list[Record], txn: Transaction, topic: str) -> None:
    for record in records:
        await txn.post(f"{topic}-out", record.value)


async def test_each_record_is_processed_once(cluster: BehaviourCluster, input_topic: str) -> None:
    done = 0
    async with session(cluster, input_topic) as one:
        async for records, txn in one.batches(50):
            await copy(records, txn, input_topic)
            done += len(records)
            if done == COUNT:
                break
    assert await results(cluster, input_topic) == Counter(range(COUNT))


async def test_records_of_an_aborted_transaction_come_again(cluster: BehaviourCluster, input_topic: str) -> None:
    calls = done = 0
    async with session(cluster, input_topic) as one:
        async for records, txn in one.batches(50):
            await copy(records, txn, input_topic)
            calls += 1
            if calls % 2:
                await txn.abort()
                continue
            done += len(records)
            if done == COUNT:
                break
    assert await results(cluster, input_topic) == Counter(range(COUNT))


async def test_a_session_that_fails_leaves_its_records_to_the_next_one(
    cluster: BehaviourCluster, input_topic: str
) -> None:
    done = 0
    while done < COUNT:
        failing = session(cluster, input_topic)
        try:
            async with failing:
                batches = 0
                async for records, txn in failing.batches(40):
                    await copy(records, txn, input_topic)
                    batches += 1
                    if batches == 4 and done + len(records) < COUNT:
                        raise ZeroDivisionError
                    done += len(records)
                    if done >= COUNT:
                        break
        except ZeroDivisionError:
            pass
    assert await results(cluster, input_topic) == Counter(range(COUNT))


async def test_run_repeats_what_was_aborted(cluster: BehaviourCluster, input_topic: str) -> None:
    calls = 0
    seen: set[int] = set()
    finished = asyncio.Event()

    async def process(records: list[Record], txn: Transaction) -> None:
        nonlocal calls
        await copy(records, txn, input_topic)
        calls += 1
        if calls % 2:
            raise TransactionAbortedError("a record was not written")
        seen.update(int(record.value or b"") for record in records)
        if len(seen) == COUNT:
            finished.set()

    async with session(cluster, input_topic) as one:
        running = asyncio.create_task(one.run(process, max_records=50))
        await finished.wait()
        # The last transaction is committed when the next records are requested, of which there are none.
        while await progress(cluster, input_topic) < COUNT:
            await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
    assert await results(cluster, input_topic) == Counter(range(COUNT))


async def test_members_come_and_go(cluster: BehaviourCluster, input_topic: str) -> None:
    """Each member leaves after some batches, in the middle of one, so that partitions move all the time."""

    async def member(number: int) -> None:
        for life in range(100):
            one = session(cluster, input_topic, f"{number}")
            try:
                async with one:
                    batches = 0
                    async for records, txn in one.batches(7):
                        await copy(records, txn, input_topic)
                        batches += 1
                        if batches > 3 + life:
                            raise ZeroDivisionError
            except ZeroDivisionError:
                pass

    members = [asyncio.create_task(member(number)) for number in range(3)]
    try:
        while await progress(cluster, input_topic) < COUNT:
            await asyncio.sleep(0)
    finally:
        for task in members:
            task.cancel()
        await asyncio.wait(members)
    assert await results(cluster, input_topic) == Counter(range(COUNT))


async def progress(cluster: BehaviourCluster, topic: str) -> int:
    """The sum of the group's committed offsets, which are also the offsets after the last processed record."""
    async with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=topic) as reader:
        found = await reader.committed(*[(topic, number) for number in range(3)])
    return sum(each.offset for each in found.values() if each is not None)


def test_options_without_the_guarantee_are_refused() -> None:
    name = secrets.token_hex(4)
    producer = Producer(bootstrap_servers="a:1", transactional_id=name)
    plain = Producer(bootstrap_servers="a:1")
    good = {"bootstrap_servers": "a:1", "group_id": "g", "enable_auto_commit": False}
    committed = Consumer("t", **good, isolation_level="read_committed")  # type: ignore[arg-type]
    for consumer, writer, error in (
        (Consumer("t", bootstrap_servers="a:1"), producer, "needs a consumer with a group_id"),
        (Consumer("t", bootstrap_servers="a:1", group_id="g"), producer, "needs enable_auto_commit=False"),
        (Consumer("t", **good), producer, 'needs isolation_level="read_committed"'),  # type: ignore[arg-type]
        (committed, plain, r"needs the option transactional_id"),
    ):
        with pytest.raises(ConfigurationError, match=error):
            ExactlyOnce(consumer, writer)
