"""Producing to brokers of every age, and reading back what was written."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

import pytest

from aiokproto import Consumer, ExactlyOnce, Producer
from aiokproto.errors import InvalidTopicError, UnknownTopicError
from aiokproto.records import BatchBuilder
from aiokproto.types import Record
from tests.compatibility.matrix import At, row
from tests.kafka.releases import number

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

AREA = "Producing"
BEFORE_BATCHES = (0, 11)


async def read(at: At, count: int, topic: str = "", **options: Any) -> list[Record[bytes, bytes]]:
    """Read partition 0 from its start, without a group."""
    async with Consumer(auto_offset_reset="earliest", **at.options, **options) as consumer:
        consumer.assign((topic or at.topic, 0))
        found: list[Record[bytes, bytes]] = []
        async for record in consumer:
            found.append(record)
            if len(found) >= count:
                break
        return found


async def each_acks(at: At, codec: Literal["none", "gzip", "snappy", "lz4", "zstd"]) -> None:
    """Write with each ``acks``, small records and one that compresses well, and read them back."""
    levels: Sequence[Any] = (1, "all", 0)
    values: list[bytes] = []
    for acks in levels:
        async with Producer(acks=acks, compression_type=codec, linger_ms=5, **at.options) as producer:
            new = [b"%s %d" % (str(acks).encode(), place) for place in range(200)] + [bytes(50_000)]
            outcomes = await producer.send_many(at.topic, new, partition=0)
            assert not outcomes.errors
            values += new
            # Read before the producer is closed, because with acks=0 Kafka 0.9 drops what it hasn't handled when the
            # socket closes.
            assert [record.value for record in await read(at, len(values))] == values


@row(AREA, "without compression, with each acks")
async def test_without_compression(at: At) -> None:
    await each_acks(at, "none")


@row(AREA, "gzip, with each acks")
async def test_gzip(at: At) -> None:
    await each_acks(at, "gzip")


@row(AREA, "snappy, with each acks")
async def test_snappy(at: At) -> None:
    await each_acks(at, "snappy")


@row(AREA, "lz4, with each acks")
async def test_lz4(at: At) -> None:
    await each_acks(at, "lz4")


@row(AREA, "zstd, with each acks", "2.1", "zstd needs")
async def test_zstd(at: At) -> None:
    await each_acks(at, "zstd")


@row(AREA, "keys, tombstones and empty values, in order")
async def test_keys_and_tombstones(at: At) -> None:
    async with Producer(**at.options) as producer:
        written = [(b"a", b"1"), (None, b"2"), (b"", None), (b"a", b""), (None, None)]
        for place, (key, value) in enumerate(written):
            metadata = await producer.send(at.topic, value, key=key, partition=0)
            assert metadata.offset == place
    assert [(record.key, record.value) for record in await read(at, 5)] == written


@row(AREA, "fetched batches (`send_batch`)")
async def test_fetched_batches(at: At) -> None:
    copy = f"{at.topic}-copy"
    async with Producer(compression_type="gzip", linger_ms=5, **at.options) as producer:
        await producer.send_many(at.topic, [b"0", b"1", b"2"], partition=0)
        if number(at.release) < BEFORE_BATCHES:
            # These brokers store no batches that could be sent unchanged.
            await producer.send_many(copy, [record.value for record in await read(at, 3)], partition=0)
        else:
            async with Consumer(auto_offset_reset="earliest", **at.options) as consumer:
                consumer.assign((at.topic, 0))
                async for batch in consumer.batches():
                    await producer.send_batch(copy, batch, partition=0)
                    break
    assert [record.value for record in await read(at, 3, copy)] == [b"0", b"1", b"2"]


@row(AREA, "fetched batches with zstd", "2.1", "zstd needs")
async def test_fetched_batches_with_zstd(at: At) -> None:
    builder = BatchBuilder(compression="zstd")
    for place in range(3):
        builder.append(int(time.time() * 1000), None, b"%d" % place)
    async with Producer(**at.options) as producer:
        await producer.send_batch(at.topic, bytes(builder.close()), partition=0)
    assert [record.value for record in await read(at, 3)] == [b"0", b"1", b"2"]


@row(AREA, "timestamps", "0.10.0", "timestamps of records need")
async def test_timestamps(at: At) -> None:
    async with Producer(**at.options) as producer:
        await producer.send(at.topic, b"0", partition=0)
        # A broker may refuse timestamps that are far from its clock.
        given = int(time.time() * 1000) - 60_000
        await producer.send(at.topic, b"1", partition=0, timestamp=given)
    records = await read(at, 2)
    assert records[0].timestamp > 1_600_000_000_000
    assert records[1].timestamp == given


@row(AREA, "headers", "0.11", "headers of records need")
async def test_headers(at: At) -> None:
    headers = [("a", b"1"), ("a", None), ("b", b"")]
    async with Producer(**at.options) as producer:
        await producer.send(at.topic, b"0", partition=0, headers=headers)
    assert list((await read(at, 1))[0].headers) == headers


@row(AREA, "idempotence", "0.11", "idempotence needs")
async def test_idempotence(at: At) -> None:
    async with Producer(enable_idempotence=True, **at.options) as producer:
        for place in range(20):
            assert (await producer.send(at.topic, b"%d" % place, partition=0)).offset == place


@row(AREA, "transactions, read committed", "0.11", "transactions need")
async def test_transactions(at: At) -> None:
    async with Producer(transactional_id=at.topic, **at.options) as producer:
        async with producer.transaction() as txn:
            await txn.send(at.topic, b"committed", partition=0)
        async with producer.transaction() as txn:
            await txn.send(at.topic, b"aborted", partition=0)
            await txn.abort()
        async with producer.transaction() as txn:
            await txn.send(at.topic, b"last", partition=0)
    records = await read(at, 2, isolation_level="read_committed")
    assert [record.value for record in records] == [b"committed", b"last"]
    assert [record.value for record in await read(at, 3)] == [b"committed", b"aborted", b"last"]


@row(
    AREA,
    "exactly once: offsets of a group's member in a transaction",
    "2.5",
    "member in a transaction need",
    first=("0.11", "transactions need"),
)
async def test_exactly_once(at: At) -> None:
    out = f"{at.topic}-out"
    if number(at.release) >= BEFORE_BATCHES:
        async with Producer(**at.options) as producer:
            await producer.send_many(at.topic, [b"1", b"2", b"3"], partition=0)
    consumer = Consumer(
        at.topic,
        group_id=at.topic,
        enable_auto_commit=False,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        **at.options,
    )
    done = 0
    async with ExactlyOnce(consumer, Producer(transactional_id=at.topic, **at.options)) as session:
        async for records, txn in session.batches():
            for record in records:
                assert record.value is not None
                await txn.post(out, b"<%s>" % record.value, partition=0)
            done += len(records)
            if done >= 3:
                session.stop()
    records_out = await read(at, 3, out, isolation_level="read_committed")
    assert [record.value for record in records_out] == [b"<1>", b"<2>", b"<3>"]


@row(AREA, "an invalid topic name is an error of its own")
async def test_an_invalid_topic_name(at: At) -> None:
    async with Producer(max_block_ms=20_000, **at.options) as producer:
        good = await producer.post(at.topic, b"good", partition=0)
        for name in ("not a name!", ".."):
            with pytest.raises((InvalidTopicError, UnknownTopicError)):
                await producer.send(name, b"bad")
        assert (await good).offset == 0
