"""Batches that are read from one topic and written unchanged to another, as a mirror does."""

from __future__ import annotations

import asyncio
import random
import time
from typing import Any

import pytest

from aiokproto import Client, Consumer, Producer, TopicPartition
from aiokproto.consumer import FetchedBatch
from aiokproto.errors import InvalidRecordError, MessageTooLargeError
from aiokproto.fetched.chunk import expected_size
from aiokproto.producer import ProducerRecord
from aiokproto.records import BatchRecord, Compression, RecordBatch
from aiokproto.records.batch import HEADER
from aiokproto.records.slices import QUICK_BYTES
from tests.behaviour.test_produce import stored, stored_batches
from tests.behaviour.transactional import V1
from tests.behaviour.transactional import Producer as Transactional
from tests.clusters import BehaviourCluster
from tests.decompressions import count_decompressions
from tests.timeouts import LONG_TIMEOUT

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
START = time.time_ns() // 1_000_000
"""Real Kafka would delete records with old timestamps in the middle of a test."""
NOISE = random.Random(1)
RECORDS = [
    ProducerRecord(
        value=None if number % 50 == 7 else b"flight %06d " % number * 4 + NOISE.randbytes(150),
        key=b"UA%d" % (number % 9) if number % 3 else None,
        headers=[("trace", b"%d" % number), ("null", None)] if number % 4 == 0 else (),
        timestamp=START + number % 100,
    )
    for number in range(2000)
]
"""Large enough that a consumer decompresses the batch ahead by default."""


@pytest.fixture
def decompressed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return count_decompressions(monkeypatch)


def producer(cluster: BehaviourCluster, **options: Any) -> Producer:
    return Producer(bootstrap_servers=cluster.bootstrap_servers, **options)


async def batches(cluster: BehaviourCluster, topic: str, count: int, **options: Any) -> list[FetchedBatch]:
    """The consumer's batches, until they have ``count`` records of the topic's only partition."""
    given: dict[str, Any] = {"auto_offset_reset": "earliest", **options}
    found: list[FetchedBatch] = []
    async with Consumer(topic, bootstrap_servers=cluster.bootstrap_servers, **given) as consumer:
        handed = consumer.batches(decompress=False)
        while count > 0:
            found.append(await anext(handed))
            count -= sum(len(one) for one in found[-1].record_batches)
    return found


@pytest.mark.parametrize("codec", CODECS[1:])
async def test_compressed_batches_have_their_size_after_compression(
    cluster: BehaviourCluster, topic: str, codec: str
) -> None:
    await cluster.create_topic(topic)
    values = [b"flight %08d, seat %08d" % (number, NOISE.randrange(10**8)) for number in range(60_000)]
    size = 16 * 1024
    async with producer(cluster, compression_type=codec, batch_size=size, linger_ms=50) as writer:
        for start in range(0, len(values), 3000):
            outcomes = await writer.send_many(topic, values[start : start + 3000])
            assert not outcomes.errors
    found = [one for fetched in await batches(cluster, topic, len(values)) for one in fetched.record_batches]
    assert [record.value for one in found for record in one] == values
    # Each call leaves some records in the batch.
    assert 0.8 * size < max(one.size_in_bytes for one in found) <= 1.05 * size
    assert all(one.compression is Compression.parse(codec) for one in found)


def content(records: list[BatchRecord]) -> list[tuple[Any, ...]]:
    """All but the offset."""
    return [(record.timestamp, record.key, record.value, record.headers) for record in records]


def after_the_header(batches: list[RecordBatch]) -> list[bytes]:
    return [bytes(batch.raw[HEADER.size :]) for batch in batches]


@pytest.mark.parametrize("codec", CODECS)
async def test_a_copy_has_the_same_bytes_without_decompression(
    cluster: BehaviourCluster, topic: str, codec: Any, decompressed: list[str]
) -> None:
    copy = f"{topic}-copy"
    await cluster.create_topic(topic)
    await cluster.create_topic(copy, partitions=2)
    async with producer(cluster, compression_type=codec, batch_size=512 * 1024) as writer:
        assert not (await writer.send_many(topic, RECORDS)).errors
        places = [
            where
            for batch in await batches(cluster, topic, len(RECORDS))
            for where in await writer.send_batch(copy, batch, partition=1)
        ]
    assert decompressed == []
    servers = cluster.bootstrap_servers
    source = (await stored_batches(servers, topic))[0]
    target = (await stored_batches(servers, copy))[1]
    assert max(expected_size(batch) for batch in source) > (0 if codec == "none" else QUICK_BYTES)
    assert content((await stored(servers, copy))[1]) == content((await stored(servers, topic))[0])
    assert after_the_header(target) == after_the_header(source)
    assert {batch.compression.name.lower() for batch in target} == {codec}
    assert [(where.topic, where.partition) for where in places] == [(copy, 1)] * len(source)
    assert [where.offset for where in places] == [batch.base_offset for batch in target]
    assert [where.timestamp for where in places] == [batch.max_timestamp for batch in source]


@pytest.mark.parametrize("codec", CODECS)
async def test_confluent_kafka_reads_the_copy(cluster: BehaviourCluster, topic: str, codec: Any) -> None:
    confluent: Any = pytest.importorskip("confluent_kafka")
    copy = f"{topic}-copy"
    await cluster.create_topic(topic)
    await cluster.create_topic(copy)
    async with producer(cluster, compression_type=codec) as writer:
        assert not (await writer.send_many(topic, RECORDS)).errors
        for batch in await batches(cluster, topic, len(RECORDS)):
            await writer.send_batch(copy, batch, partition=0)

    def read() -> list[tuple[Any, ...]]:
        options = {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": copy,
            "auto.offset.reset": "earliest",
            "check.crcs": True,
        }
        consumer = confluent.Consumer(options)
        consumer.assign([confluent.TopicPartition(copy, 0, 0)])
        try:
            messages = consumer.consume(len(RECORDS), LONG_TIMEOUT)
        finally:
            consumer.close()
        assert not any(message.error() for message in messages)
        return [
            (one.timestamp()[1], one.key(), one.value(), tuple(one.headers() or ()), one.offset()) for one in messages
        ]

    expected = [
        (record.timestamp, record.key, record.value, tuple(record.headers), offset)
        for offset, record in enumerate(RECORDS)
    ]
    assert await asyncio.to_thread(read) == expected


async def test_records_of_a_transaction_are_copied_without_the_transaction(
    cluster: BehaviourCluster, topic: str
) -> None:
    copy = f"{topic}-copy"
    await cluster.create_topic(topic)
    await cluster.create_topic(copy)
    await write_transactions(cluster, topic)
    async with producer(cluster) as writer:
        for batch in await batches(cluster, topic, 2, isolation_level="read_committed"):
            await writer.send_batch(copy, batch, partition=0)
    (target,) = (await stored_batches(cluster.bootstrap_servers, copy)).values()
    assert [record.value for batch in target for record in batch] == [b"kept", b"kept too"]
    assert not any(batch.is_transactional or batch.is_control for batch in target)


async def write_transactions(cluster: BehaviourCluster, topic: str) -> None:
    """One transaction is committed, and the one before it isn't."""
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        transactional = Transactional(client, V1)
        await transactional.init()
        for commit, values in ((False, [b"dropped"]), (True, [b"kept", b"kept too"])):
            await transactional.write(topic, 0, *values)
            await transactional.end(commit)


async def test_a_batch_is_split_for_a_topic_with_a_smaller_limit(cluster: BehaviourCluster, topic: str) -> None:
    copy = f"{topic}-copy"
    await cluster.create_topic(topic)
    await cluster.create_topic(copy, config={"max.message.bytes": "2000"})
    async with producer(cluster, compression_type="lz4") as writer:
        assert not (await writer.send_many(topic, RECORDS[:200])).errors
        for batch in await batches(cluster, topic, 200):
            await writer.send_batch(copy, batch, partition=0)
    servers = cluster.bootstrap_servers
    assert content((await stored(servers, copy))[0]) == content((await stored(servers, topic))[0])
    parts = (await stored_batches(servers, copy))[0]
    assert len(parts) > 1
    assert {batch.compression for batch in parts} == {Compression.LZ4}


async def test_a_record_too_large_for_the_topic_is_an_error(cluster: BehaviourCluster, topic: str) -> None:
    copy = f"{topic}-copy"
    await cluster.create_topic(topic)
    await cluster.create_topic(copy, config={"max.message.bytes": "2000"})
    async with producer(cluster) as writer:
        await writer.send(topic, b"x" * 3000)
        (batch,) = await batches(cluster, topic, 1)
        with pytest.raises(MessageTooLargeError):
            await writer.send_batch(copy, batch, partition=0)


async def test_a_batch_with_log_append_time_cannot_be_sent_but_is_stored_with_it(
    cluster: BehaviourCluster, topic: str
) -> None:
    copy = f"{topic}-copy"
    await cluster.create_topic(topic)
    await cluster.create_topic(copy, config={"message.timestamp.type": "LogAppendTime"})
    async with producer(cluster) as writer:
        await writer.send(topic, b"v", timestamp=START)
        (batch,) = await batches(cluster, topic, 1)
        (where,) = await writer.send_batch(copy, batch, partition=0)
        assert where.timestamp > START
        (appended,) = await batches(cluster, copy, 1)
        assert [record.timestamp for record in appended] == [where.timestamp]
        with pytest.raises(InvalidRecordError, match="LogAppendTime"):
            await writer.send_batch(topic, appended, partition=0)


async def test_part_of_a_batch_cannot_be_sent_unchanged(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    async with producer(cluster) as writer:
        assert not (await writer.send_many(topic, [b"0", b"1", b"2"])).errors
        async with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
            consumer.assign(TopicPartition(topic, 0))
            consumer.seek(TopicPartition(topic, 0), 1)
            batch = await anext(consumer.batches(decompress=False))
        with pytest.raises(InvalidRecordError, match=r"offset 0 .* starts before offset 1, .*send_many"):
            await writer.send_batch(topic, batch, partition=0)
        again = [ProducerRecord(record.value, record.key, record.headers) for record in batch]
        assert not (await writer.send_many(topic, again)).errors
    assert [record.value for record in (await stored(cluster.bootstrap_servers, topic))[0]] == [
        b"0",
        b"1",
        b"2",
        b"1",
        b"2",
    ]
