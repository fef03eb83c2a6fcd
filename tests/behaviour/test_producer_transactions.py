"""Transactions of the producer, of both versions, on the embedded broker and on real Kafka."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from aiokproto.client import Client
from aiokproto.consumer import Consumer
from aiokproto.errors import (
    BrokerError,
    BufferFullError,
    ConfigurationError,
    FencedError,
    InvalidRecordError,
    InvalidTopicError,
    MessageTooLargeError,
    TransactionAbortedError,
)
from aiokproto.producer import Producer
from aiokproto.producer.transactional_id import TransactionalId
from aiokproto.records import BatchBuilder, decode
from aiokproto.types import GroupMetadata, TopicPartition
from tests.behaviour.transactional import COMMITTED, UNCOMMITTED, fetch, read, read_when
from tests.clusters import BehaviourCluster


async def first_version(transactional_id: TransactionalId, before: bool) -> bool:
    return False


@pytest.fixture(params=["v1", "v2"], autouse=True)
def version(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The version of the transactions: the cluster's, or the one that every broker since 0.11 has."""
    if request.param == "v1":
        monkeypatch.setattr(TransactionalId, "has_v2", first_version)
    return str(request.param)


@pytest.fixture
async def client(cluster: BehaviourCluster) -> AsyncIterator[Client]:
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


@pytest.fixture
def transactional_id() -> str:
    return f"txn-{secrets.token_hex(4)}"


@pytest.fixture
async def producer(cluster: BehaviourCluster, transactional_id: str) -> AsyncIterator[Producer]:
    async with make(cluster, transactional_id) as producer:
        yield producer


def make(cluster: BehaviourCluster, transactional_id: str) -> Producer:
    return Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=transactional_id, linger_ms=0)


async def committed(cluster: BehaviourCluster, group: str, topic: str, partition: int = 0) -> int | None:
    """Return the group's committed offset, once no transaction is open on it."""
    async with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=group) as consumer:
        where = TopicPartition(topic, partition)
        found = (await consumer.committed(where))[where]
        return None if found is None else found.offset


# ---- committing and aborting


async def test_what_is_committed_is_visible_in_all_partitions(
    cluster: BehaviourCluster, client: Client, topic: str, producer: Producer
) -> None:
    await cluster.create_topic(topic, partitions=2)
    async with producer.transaction() as txn:
        for partition in range(2):
            await txn.post(topic, b"%d" % partition, partition=partition)
        where = await txn.send(topic, b"last", partition=1)
        assert where.offset == 1
        assert await read(client, topic, 0, COMMITTED) == []
    await read_when(client, topic, [b"0"])
    await read_when(client, topic, [b"1", b"last"], partition=1)


async def test_what_is_aborted_is_visible_only_to_readers_of_everything(
    cluster: BehaviourCluster, client: Client, topic: str, producer: Producer
) -> None:
    await cluster.create_topic(topic)
    with suppress(ZeroDivisionError):
        async with producer.transaction() as txn:
            await txn.send(topic, b"aborted")
            raise ZeroDivisionError
    async with producer.transaction() as txn:
        await txn.send(topic, b"by the application")
        await txn.abort()
    async with producer.transaction() as txn:
        await txn.send(topic, b"committed")
    await read_when(client, topic, [b"committed"])
    assert await read(client, topic, isolation=UNCOMMITTED) == [b"aborted", b"by the application", b"committed"]


async def test_many_transactions_follow_each_other(
    cluster: BehaviourCluster, client: Client, topic: str, producer: Producer
) -> None:
    await cluster.create_topic(topic)
    for number in range(20):
        async with producer.transaction() as txn:
            for part in range(3):
                await txn.post(topic, b"%d.%d" % (number, part))
            if number % 3 == 0:
                await txn.abort()
    await read_when(
        client, topic, [b"%d.%d" % (number, part) for number in range(20) if number % 3 for part in range(3)]
    )


async def test_a_transaction_without_records_changes_nothing(producer: Producer) -> None:
    async with producer.transaction():
        pass
    async with producer.transaction() as txn:
        await txn.abort()


async def test_every_way_to_write_is_part_of_the_transaction(
    cluster: BehaviourCluster, client: Client, topic: str, producer: Producer
) -> None:
    await cluster.create_topic(topic)
    builder = BatchBuilder()
    builder.append(1, None, b"batch", ())
    async with producer.transaction() as txn:
        await producer.partitions_for(topic)
        txn.try_post(topic, b"try_post")
        await txn.send_batch(topic, builder.close(), partition=0)
        await txn.send_many(topic, [b"many", b"more"])
    await read_when(client, topic, [b"try_post", b"batch", b"many", b"more"])
    response = await fetch(client, topic, 0, UNCOMMITTED)
    assert all(batch.is_transactional for batch in decode(bytes(response.records or b"")))


async def test_a_cancelled_block_aborts_before_the_next_transaction(
    cluster: BehaviourCluster, client: Client, topic: str, producer: Producer
) -> None:
    await cluster.create_topic(topic)
    written = asyncio.Event()

    async def work() -> None:
        async with producer.transaction() as txn:
            await txn.send(topic, b"cancelled")
            written.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await written.wait()
    task.cancel()
    await asyncio.wait([task])
    async with producer.transaction() as txn:
        await txn.send(topic, b"next")
    await read_when(client, topic, [b"next"])
    assert task.cancelled()


# ---- failures


async def test_a_record_that_fails_aborts_the_transaction(
    cluster: BehaviourCluster, client: Client, topic: str, producer: Producer
) -> None:
    await cluster.create_topic(topic, config={"max.message.bytes": "1000"})
    txn = await producer.transaction().__aenter__()
    await txn.send(topic, b"fits")
    # Drop the delivery, so that nothing awaits it.
    await txn.post(topic, bytes(2000))
    with pytest.raises(TransactionAbortedError, match="MESSAGE_TOO_LARGE") as caught:
        await txn.commit()
    assert isinstance(caught.value.__cause__, MessageTooLargeError)
    async with producer.transaction() as txn:
        await txn.send(topic, b"next")
    await read_when(client, topic, [b"next"])


async def test_after_a_failure_every_call_raises_it(cluster: BehaviourCluster, topic: str, producer: Producer) -> None:
    await cluster.create_topic(topic, config={"max.message.bytes": "1000"})
    async with producer.transaction() as txn:
        with pytest.raises(MessageTooLargeError):
            await txn.send(topic, bytes(2000))
        with pytest.raises(TransactionAbortedError, match=r"can only be aborted.*MESSAGE_TOO_LARGE"):
            await txn.post(topic, b"v")
        with pytest.raises(TransactionAbortedError, match="can only be aborted"):
            await txn.send_offsets({(topic, 0): 1}, "g")
        await txn.abort()
    async with producer.transaction() as txn:
        await txn.send(topic, b"v")


async def test_a_record_that_send_many_rejects_aborts(
    cluster: BehaviourCluster, topic: str, producer: Producer
) -> None:
    await cluster.create_topic(topic)
    txn = await producer.transaction().__aenter__()
    outcomes = await txn.send_many(topic, [b"good", "bad"])  # type: ignore[list-item]
    assert list(outcomes.errors) == [1]
    with pytest.raises(TransactionAbortedError) as caught:
        await txn.commit()
    assert isinstance(caught.value.__cause__, InvalidRecordError)


async def test_a_record_that_post_many_rejects_aborts(
    cluster: BehaviourCluster, topic: str, producer: Producer
) -> None:
    await cluster.create_topic(topic)
    txn = await producer.transaction().__aenter__()
    delivery = await txn.post_many(topic, [b"good", "bad"])  # type: ignore[list-item]
    with pytest.raises(TransactionAbortedError) as caught:
        await txn.commit()
    assert isinstance(caught.value.__cause__, InvalidRecordError)
    assert 1 in (await delivery).errors, "the first may have been written before the abort, or not"


@pytest.mark.parametrize("how", ["send", "post", "try_post", "send_batch"])
async def test_a_record_that_is_too_large_aborts_although_its_error_was_caught(
    cluster: BehaviourCluster, client: Client, topic: str, producer: Producer, how: str
) -> None:
    """It fails even if nothing awaits the task that raised, or the rest would be committed without the record."""
    await cluster.create_topic(topic)
    txn = await producer.transaction().__aenter__()
    await txn.send(topic, b"fits")

    async def write() -> None:
        if how == "try_post":
            txn.try_post(topic, bytes(2_000_000))
        elif how == "send_batch":
            builder = BatchBuilder()
            builder.append(1, None, bytes(2_000_000), ())
            await txn.send_batch(topic, builder.close(), partition=0)
        else:
            await getattr(txn, how)(topic, bytes(2_000_000))

    with pytest.raises(MessageTooLargeError):
        await write()
    with pytest.raises(TransactionAbortedError) as caught:
        await txn.commit()
    assert isinstance(caught.value.__cause__, MessageTooLargeError)
    async with producer.transaction() as txn:
        await txn.send(topic, b"next")
    await read_when(client, topic, [b"next"])


async def test_a_record_of_an_unknown_topic_aborts_although_its_error_was_caught(
    cluster: BehaviourCluster, client: Client, topic: str, producer: Producer
) -> None:
    await cluster.create_topic(topic)
    txn = await producer.transaction().__aenter__()
    await txn.send(topic, b"known")
    with pytest.raises(InvalidTopicError):
        await txn.send("no topic", b"unknown")
    with pytest.raises(TransactionAbortedError) as caught:
        await txn.commit()
    assert isinstance(caught.value.__cause__, InvalidTopicError)
    await read_when(client, topic, [])


async def test_a_record_that_a_call_refuses_does_not(
    cluster: BehaviourCluster, client: Client, topic: str, producer: Producer
) -> None:
    await cluster.create_topic(topic)
    async with producer.transaction() as txn:
        with pytest.raises(InvalidRecordError):
            await txn.send(topic, "text")  # type: ignore[arg-type]
        with pytest.raises(InvalidRecordError):
            await txn.send(topic, b"bytes", partition=7)
        with pytest.raises(BufferFullError):
            txn.try_post(f"{topic}-not-known-yet", b"bytes")
        await txn.send(topic, b"bytes")
    await read_when(client, topic, [b"bytes"])


# ---- fencing


async def test_the_later_producer_fences_the_earlier_one(
    cluster: BehaviourCluster, client: Client, topic: str, transactional_id: str
) -> None:
    await cluster.create_topic(topic)
    earlier = make(cluster, transactional_id)
    await earlier.start()
    try:
        async with earlier.transaction() as txn:
            await txn.send(topic, b"zombie")
            async with make(cluster, transactional_id) as later, later.transaction() as other:
                await other.send(topic, b"later")
            with pytest.raises((FencedError, TransactionAbortedError)):
                await txn.send(topic, b"too late")
            with pytest.raises(FencedError, match="another producer with this id was started"):
                await txn.commit()
        with pytest.raises(FencedError):
            async with earlier.transaction():
                pass
        with pytest.raises(FencedError):
            await earlier.flush()
    finally:
        await earlier.close()
    await read_when(client, topic, [b"later"])


async def test_a_producer_that_starts_aborts_what_its_predecessor_left_open(
    cluster: BehaviourCluster, client: Client, topic: str, transactional_id: str
) -> None:
    await cluster.create_topic(topic)
    lost = make(cluster, transactional_id)
    await lost.start()
    txn = lost.transaction()
    await txn.__aenter__()
    await txn.send(topic, b"lost")
    async with make(cluster, transactional_id) as successor, successor.transaction() as other:
        await other.send(topic, b"kept")
    await read_when(client, topic, [b"kept"])
    await lost.close()


async def test_closing_aborts_the_open_transaction(
    cluster: BehaviourCluster, client: Client, topic: str, transactional_id: str
) -> None:
    await cluster.create_topic(topic)
    async with make(cluster, transactional_id) as producer:
        txn = producer.transaction()
        await txn.__aenter__()
        await txn.send(topic, b"open")
    await read_when(client, topic, [])
    assert await read(client, topic, isolation=UNCOMMITTED) == [b"open"]


# ---- offsets


async def test_offsets_are_committed_with_the_transaction(
    cluster: BehaviourCluster, topic: str, producer: Producer
) -> None:
    await cluster.create_topic(topic)
    async with producer.transaction() as txn:
        await txn.send(topic, b"result")
        await txn.send_offsets({(topic, 0): 7}, topic)
    assert await committed(cluster, topic, topic) == 7
    async with producer.transaction() as txn:
        await txn.send_offsets({(topic, 0): 9}, topic)
        await txn.abort()
    assert await committed(cluster, topic, topic) == 7


async def test_a_consumers_progress_is_committed_with_the_results(
    cluster: BehaviourCluster, client: Client, topic: str, producer: Producer
) -> None:
    await cluster.create_topic(topic)
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as source:
        await source.send_many(topic, [b"a", b"b", b"c"])
    consumer = Consumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    async with consumer:
        found = await anext(consumer)
        async with producer.transaction() as txn:
            await txn.send(topic, b"from " + (found.value or b""))
            await txn.send_offsets(consumer)
        assert consumer.positions()[TopicPartition(topic, 0)].offset == 1
        assert consumer.group_metadata().generation > 0
    assert await committed(cluster, topic, topic) == 1
    await read_when(client, topic, [b"a", b"b", b"c", b"from a"])


async def test_a_consumer_that_commits_by_itself_is_refused(
    cluster: BehaviourCluster, topic: str, producer: Producer
) -> None:
    await cluster.create_topic(topic)
    async with Consumer(topic, bootstrap_servers=cluster.bootstrap_servers, group_id=topic) as consumer:
        with pytest.raises(ConfigurationError, match="enable_auto_commit=False"):
            consumer.progress([])
        with pytest.raises(ConfigurationError, match="enable_auto_commit=False"):
            async with producer.transaction() as txn:
                await txn.send_offsets(consumer)


async def test_offsets_of_a_member_that_the_group_has_left_behind_are_refused(
    cluster: BehaviourCluster, client: Client, topic: str, producer: Producer
) -> None:
    await cluster.create_topic(topic)
    async with Consumer(topic, bootstrap_servers=cluster.bootstrap_servers, group_id=topic) as consumer:
        await consumer.poll(timeout_ms=0)
        await consumer.partitions_for_topic(topic)
        while not consumer.assignment():
            await consumer.poll(timeout_ms=10)
        current = consumer.group_metadata()
        async with producer.transaction() as txn:
            await txn.send(topic, b"result")
            zombie = current._replace(generation=current.generation - 1)
            with pytest.raises(TransactionAbortedError) as caught:
                await txn.send_offsets({(topic, 0): 1}, zombie)
            await txn.abort()
        assert isinstance(caught.value.__cause__, BrokerError)
        async with producer.transaction() as txn:
            await txn.send(topic, b"next")
            await txn.send_offsets({(topic, 0): 1}, current)
    await read_when(client, topic, [b"next"])


# ---- mistakes


async def test_one_transaction_at_a_time(cluster: BehaviourCluster, topic: str, producer: Producer) -> None:
    await cluster.create_topic(topic)
    async with producer.transaction() as txn:
        with pytest.raises(ConfigurationError, match="a transaction is open: commit or abort it"):
            async with producer.transaction():
                pass
        await txn.send(topic, b"v")
    with pytest.raises(ConfigurationError, match="a transaction is used once"):
        async with txn:
            pass


async def test_records_are_written_within_a_transaction_only(
    cluster: BehaviourCluster, client: Client, topic: str, producer: Producer
) -> None:
    await cluster.create_topic(topic)
    with pytest.raises(ConfigurationError, match=r"async with producer\.transaction"):
        await producer.send(topic, b"v")
    begun = producer.transaction()
    with pytest.raises(ConfigurationError, match="the transaction has not begun"):
        await begun.send(topic, b"v")
    async with producer.transaction() as txn:
        await txn.send(topic, b"v")
        with pytest.raises(ConfigurationError, match=r"async with producer\.transaction"):
            await producer.send(topic, b"w")
    with pytest.raises(ConfigurationError, match="the transaction was committed"):
        await txn.send(topic, b"late")
    with pytest.raises(ConfigurationError, match="the transaction was committed"):
        await txn.abort()
    with pytest.raises(ConfigurationError, match="the transaction was committed"):
        await txn.commit()
    await read_when(client, topic, [b"v"])


async def test_wrong_offsets_are_refused_and_leave_the_transaction_usable(
    cluster: BehaviourCluster, client: Client, topic: str, producer: Producer
) -> None:
    await cluster.create_topic(topic)
    async with producer.transaction() as txn:
        with pytest.raises(ConfigurationError, match=r"expected consumer\.group_metadata\(\)"):
            await txn.send_offsets({(topic, 0): 1})
        with pytest.raises(ConfigurationError, match="offset=-1"):
            await txn.send_offsets({(topic, 0): -1}, "g")
        with pytest.raises(ConfigurationError, match=r"takes a consumer, or a dict.* or consumer\.progress\(records\)"):
            await txn.send_offsets([(topic, 0)], "g")  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="group=GroupMetadata"):
            await txn.send_offsets({(topic, 0): 1}, GroupMetadata(""))
        await txn.send(topic, b"v")
    await read_when(client, topic, [b"v"])
