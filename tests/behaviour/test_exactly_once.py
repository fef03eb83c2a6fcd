"""Exactly-once sessions on the embedded broker and on real Kafka: each input is in the output once."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from typing import Any

import pytest

from aiokproto.client import Client
from aiokproto.codec.messages.describe_transactions import DescribeTransactionsRequest
from aiokproto.consumer import Consumer
from aiokproto.errors import ConfigurationError, TransactionAbortedError
from aiokproto.exactly_once import ExactlyOnce, Process
from aiokproto.producer import Producer, Transaction
from aiokproto.types import Record
from tests.behaviour.waiting import written
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


def session(
    cluster: BehaviourCluster,
    topic: str,
    name: str = "one",
    *,
    transaction_timeout_ms: int | None = None,
    **options: Any,
) -> ExactlyOnce:
    servers = cluster.bootstrap_servers
    consumer = Consumer(
        topic,
        bootstrap_servers=servers,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        **options,
    )
    producer = Producer(
        bootstrap_servers=servers, transactional_id=f"{topic}-{name}", transaction_timeout_ms=transaction_timeout_ms
    )
    return ExactlyOnce(consumer, producer)


async def results(cluster: BehaviourCluster, topic: str) -> Counter[int]:
    """The committed output, once the group has committed all of the input."""
    out = f"{topic}-out"
    found: Counter[int] = Counter()
    async with Consumer(
        out, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as reader:
        partitions = await reader.partitions_for_topic(out)
        ends = await written(cluster, *partitions)
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
                one.stop()
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
                one.stop()
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
                        failing.stop()
        except ZeroDivisionError:
            pass
    assert await results(cluster, input_topic) == Counter(range(COUNT))


async def test_a_plain_function_is_refused_and_its_records_come_again(
    cluster: BehaviourCluster, input_topic: str
) -> None:
    def process(records: list[Record], txn: Transaction) -> None:
        """Writes nothing."""

    done = 0
    async with session(cluster, input_topic) as one:
        with pytest.raises(ConfigurationError, match=r"run\(.*process.*it is no coroutine function: it returned None"):
            await one.run(process)  # type: ignore[arg-type]
        async for records, txn in one.batches():
            await copy(records, txn, input_topic)
            done += len(records)
            if done == COUNT:
                one.stop()
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
        one.stop()
        await running
    assert await results(cluster, input_topic) == Counter(range(COUNT))


async def test_a_loop_that_is_left_in_the_middle_of_a_batch_loses_nothing(
    cluster: BehaviourCluster, input_topic: str
) -> None:
    """The loop ends by break, an exception that is caught, or a cancellation. The whole batch is delivered again."""
    left = 0
    async with session(cluster, input_topic) as one:
        for way in ("break", "raise", "return"):
            try:
                async for records, txn in one.batches(20):
                    await copy(records[: len(records) // 2], txn, input_topic)
                    left += 1
                    if way == "raise":
                        raise ZeroDivisionError
                    break
            except ZeroDivisionError:
                pass
        with pytest.raises(ZeroDivisionError):
            await one.run(_fail_halfway(input_topic), max_records=20)
        await _copy_all(cluster, one, input_topic)
        # Break out of the session's last loop, too.
        async for records, txn in one.batches():
            await copy(records, txn, input_topic)
            break
    async with session(cluster, input_topic) as successor:
        async for records, txn in successor.batches():
            assert [record.value for record in records] == [b"%d" % COUNT]
            await copy(records, txn, input_topic)
            successor.stop()
    assert left == 3
    assert await results(cluster, input_topic) == Counter(range(COUNT + 1))


def _fail_halfway(topic: str) -> Process:
    async def process(records: list[Record], txn: Transaction) -> None:
        await copy(records[: len(records) // 2], txn, topic)
        raise ZeroDivisionError

    return process


async def _copy_all(cluster: BehaviourCluster, one: ExactlyOnce, topic: str) -> None:
    """Copy all records without stopping the session, and leave one more record to the next loop."""
    done = 0
    batches = one.batches(50)
    while done < COUNT:
        records, txn = await anext(batches)
        await copy(records, txn, topic)
        done += len(records)
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        await producer.send(topic, b"%d" % COUNT, partition=0)
    # Requesting a batch commits the last one.
    records, _ = await anext(batches)
    assert [record.value for record in records] == [b"%d" % COUNT]


async def test_a_batch_that_takes_longer_than_the_transactions_timeout_is_processed_again(
    cluster: BehaviourCluster, input_topic: str
) -> None:
    """The session continues with transactions of version 2."""
    calls = done = 0
    async with session(cluster, input_topic, transaction_timeout_ms=500) as one:
        async for records, txn in one.batches(100):
            await copy(records, txn, input_topic)
            calls += 1
            if calls == 1:
                await _until_aborted(cluster, f"{input_topic}-one")
                continue
            done += len(records)
            if done == COUNT:
                one.stop()
    assert await results(cluster, input_topic) == Counter(range(COUNT))


async def _until_aborted(cluster: BehaviourCluster, transactional_id: str) -> None:
    """Wait until the coordinator has aborted the transaction because of its timeout."""
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        while (await client.request(request)).transaction_states[0].transaction_state != "CompleteAbort":
            await asyncio.sleep(0)


async def test_a_session_that_leaves_the_group_in_a_batch_commits_nothing_of_it(
    cluster: BehaviourCluster, input_topic: str
) -> None:
    """The loop body takes longer than max_poll_interval_ms: others may have the partitions, so the batch is aborted."""
    calls = done = 0
    async with session(cluster, input_topic, max_poll_interval_ms=1000, session_timeout_ms=6000) as one:
        async for records, txn in one.batches(100):
            await copy(records, txn, input_topic)
            calls += 1
            if calls == 1:
                while one._consumer.assignment():
                    await asyncio.sleep(0)
                continue
            done += len(records)
            if done == COUNT:
                one.stop()
    assert await results(cluster, input_topic) == Counter(range(COUNT))


async def test_a_session_stops_within_a_moment_when_there_is_nothing_to_do(
    cluster: BehaviourCluster, topic: str
) -> None:
    await cluster.create_topic(topic)
    async with session(cluster, topic) as one:
        running = asyncio.create_task(one.run(_fail_halfway(topic)))
        await asyncio.sleep(0)
        one.stop()
        await asyncio.wait_for(running, 30)


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
    prepared = Producer(bootstrap_servers="a:1", transactional_id=name, transaction_two_phase_commit_enable=True)
    good = {"bootstrap_servers": "a:1", "group_id": "g", "enable_auto_commit": False}
    committed = Consumer("t", **good, isolation_level="read_committed")  # type: ignore[arg-type]
    for consumer, writer, error in (
        (Consumer("t", bootstrap_servers="a:1"), producer, "needs a consumer with a group_id"),
        (Consumer("t", bootstrap_servers="a:1", group_id="g"), producer, "needs enable_auto_commit=False"),
        (Consumer("t", **good), producer, 'needs isolation_level="read_committed"'),  # type: ignore[arg-type]
        (committed, plain, r"needs the option transactional_id"),
        (committed, prepared, r"leave out transaction_two_phase_commit_enable"),
    ):
        with pytest.raises(ConfigurationError, match=error):
            ExactlyOnce(consumer, writer)
