"""Reading in a task, without Spark."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from aiokproto.broker import Cluster
from aiokproto.cluster import ClusterClient
from aiokproto.config import ClusterConfig
from aiokproto.errors import CorruptRecordError, DeadlineError, UnsupportedCompressionError
from aiokproto.records import BatchBuilder, BatchRecord, Compression, RecordBatch, encode
from aiokproto.spark.fetching import Fetched, RangeFetcher
from aiokproto.spark.offsets import DataLossError, OffsetRange
from aiokproto.spark.options import ReadOptions
from aiokproto.spark.planning import TopicChangedError, plan, plan_now
from aiokproto.spark.reading import MAX_RECORDS, read_range, to_arrow
from aiokproto.spark.worker import MAX_KEPT, Worker
from tests.spark.kafka import Kafka

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
NOW = 1_700_000_000_000
MIB = 1 << 20

GROWING = '''
import struct, sys
from pathlib import Path
from aiokproto.records import BatchRecord, Compression, RecordBatch, encode
from aiokproto.spark.offsets import OffsetRange
from aiokproto.spark.options import parse_read_options
from aiokproto.spark.reading import to_arrow

codec = Compression(int(sys.argv[1]))
record = bytes(encode([BatchRecord(0, 1, None, bytes(1 << 20))])[61:])
if codec is Compression.ZSTD:
    import zstandard
    packer = zstandard.ZstdCompressor().compressobj()
    packed = b"".join(packer.compress(record) for _ in range(3072)) + packer.flush()
else:
    import lz4.frame
    packer = lz4.frame.LZ4FrameCompressor()
    packed = packer.begin() + b"".join(packer.compress(record) for _ in range(3072)) + packer.flush()
batch = bytearray(encode([BatchRecord(0, 1, None, b"")])[:61] + packed)
struct.pack_into(">i", batch, 8, len(batch) - 12)
struct.pack_into(">h", batch, 21, codec)
struct.pack_into(">i", batch, 57, 3072)
options = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "kafka.check.crcs": "false"}
options = parse_read_options(options)
wanted = OffsetRange("t", bytes(16), 0, 0, 5000)
# What is loaded on first use does not count.
assert len(list(to_arrow([RecordBatch(encode([BatchRecord(0, 1, b"", b"")]))], wanted, options))) == 1

def peak():
    """Not what getrusage says, which counts the process that started this one."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])

before = peak()
rows = sum(table.num_rows for table in to_arrow([RecordBatch(batch, max_decompressed=4 << 30)], wanted, options))
print(rows, (peak() - before) >> 10)
'''


def some_records(count: int, start: int = 0) -> list[BatchRecord]:
    """Keys, values and headers there, empty, and missing."""
    return [
        BatchRecord(
            offset,
            NOW + offset,
            (None, b"", b"key-%d" % offset)[offset % 3],
            (None, b"", b"value-%d" % offset, b"x" * 300)[offset % 4],
            ((), (("a", b"1"), ("a", None), ("", b"")))[offset % 2],
        )
        for offset in range(start, start + count)
    ]


def rows(tables: Iterator[Any]) -> list[BatchRecord]:
    return [
        BatchRecord(
            row["offset"],
            round(row["timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        )
        for table in tables
        for row in table.to_pylist()
    ]


def offsets(fetched: Fetched | None) -> list[int]:
    assert fetched is not None
    return [batch.base_offset for batch in fetched.batches]


def read(worker: Worker, kafka: Kafka, topic: str, **options: str) -> list[BatchRecord]:
    parsed = kafka.read_options(subscribe=topic, includeHeaders="true", **options)
    ranges = plan_now(parsed).ranges
    return [record for one in ranges for record in rows(read_range(worker, one, parsed))]


def pinned(topic: str, start: int, end: int) -> dict[str, str]:
    return {
        "startingOffsets": f'{{"{topic}": {{"0": {start}}}}}',
        "endingOffsets": f'{{"{topic}": {{"0": {end}}}}}',
    }


@pytest.mark.parametrize("codec", CODECS)
def test_records_are_read_as_they_were_written(kafka: Kafka, worker: Worker, topic: str, codec: str) -> None:
    kafka.create_topic(topic)
    written = some_records(100)
    for start in range(0, 100, 20):
        kafka.produce(topic, 0, written[start : start + 20], codec)
    assert read(worker, kafka, topic) == written


def test_a_range_that_starts_and_ends_within_batches(kafka: Kafka, worker: Worker, topic: str) -> None:
    kafka.create_topic(topic)
    written = some_records(60)
    for start in range(0, 60, 20):
        kafka.produce(topic, 0, written[start : start + 20], "zstd")
    assert read(worker, kafka, topic, **pinned(topic, 7, 53)) == written[7:53]
    assert read(worker, kafka, topic, **pinned(topic, 25, 26)) == written[25:26]


def test_many_small_responses(kafka: Kafka, worker: Worker, topic: str) -> None:
    """A broker sends at least one batch, however small the requested size is."""
    kafka.create_topic(topic)
    written = some_records(50)
    for start in range(0, 50, 5):
        kafka.produce(topic, 0, written[start : start + 5])
    assert read(worker, kafka, topic, **{"kafka.max.partition.fetch.bytes": "1"}) == written


def test_a_range_may_end_in_a_gap(kafka: Kafka, worker: Worker, topic: str) -> None:
    """Transaction markers at the end of a log leave offsets that no record ever has."""
    kafka.create_topic(topic)
    kafka.produce(topic, 0, some_records(3))
    kafka.append_marker(topic, 0)
    assert plan_now(kafka.read_options(subscribe=topic)).ranges[0].end == 4
    assert read(worker, kafka, topic) == some_records(3)
    assert read(worker, kafka, topic, **pinned(topic, 3, 4)) == []


def test_columns_in_the_order_wanted(kafka: Kafka, worker: Worker, topic: str) -> None:
    kafka.create_topic(topic)
    kafka.produce(topic, 0, some_records(4))
    options = kafka.read_options(subscribe=topic, columns="offset,value")
    (table,) = read_range(worker, plan_now(options).ranges[0], options)
    assert table.schema.names == ["offset", "value"]
    assert table["offset"].to_pylist() == [0, 1, 2, 3]


async def fetches() -> int:
    """The number of running tasks of this loop."""
    # One loop iteration for cancelled tasks to end.
    await asyncio.sleep(0)
    return sum("RangeFetcher" in repr(task) for task in asyncio.all_tasks())


def test_stopping_early_leaves_the_worker_usable(kafka: Kafka, worker: Worker, topic: str) -> None:
    kafka.create_topic(topic)
    for start in range(0, 30, 10):
        kafka.produce(topic, 0, some_records(10, start))
    options = kafka.read_options(subscribe=topic, **{"kafka.fetch.max.wait.ms": "1"})
    tables = read_range(worker, replace(plan_now(options).ranges[0], end=100), options)
    assert next(tables).num_rows == 30
    assert worker.start(fetches()).result() == 1
    tables.close()  # type: ignore[attr-defined]
    assert worker.start(fetches()).result() == 0
    assert len(read(worker, kafka, topic)) == 30


def test_waiting_in_vain_names_partition_offset_and_broker(kafka: Kafka, worker: Worker, topic: str) -> None:
    """As when a log was truncated after the read was planned."""
    kafka.create_topic(topic)
    kafka.produce(topic, 0, some_records(3))
    options = kafka.read_options(
        subscribe=topic, **{"kafkaConsumer.pollTimeoutMs": "50", "kafka.fetch.max.wait.ms": "1"}
    )
    wanted = replace(plan_now(options).ranges[0], end=5)
    tables = read_range(worker, wanted, options)
    assert next(tables).num_rows == 3
    with pytest.raises(DeadlineError, match=f"reading {topic}-0 offsets 0 to 5: .* from offset 3 on, from broker 0"):
        next(tables)


def test_records_deleted_after_planning(kafka: Kafka, worker: Worker, topic: str) -> None:
    kafka.create_topic(topic)
    for start in (0, 10):
        kafka.produce(topic, 0, some_records(10, start))
    options = kafka.read_options(subscribe=topic)
    wanted = plan_now(options).ranges[0]
    kafka.delete_records(topic, 0, 12)
    with pytest.raises(DataLossError, match=f"reading {topic}-0 offsets 0 to 20: 12 offsets from 0 on were deleted"):
        list(read_range(worker, wanted, options))
    tolerant = kafka.read_options(subscribe=topic, failOnDataLoss="false")
    tables = list(read_range(worker, wanted, tolerant))
    assert [offset for table in tables for offset in table["offset"].to_pylist()] == list(range(12, 20))


def test_a_topic_created_again_is_not_read_in_place_of_the_one_planned(
    kafka: Kafka, worker: Worker, topic: str
) -> None:
    kafka.create_topic(topic)
    kafka.produce(topic, 0, some_records(3))
    options = kafka.read_options(subscribe=topic)
    wanted = plan_now(options).ranges[0]
    assert len(list(read_range(worker, wanted, options))) == 1
    kafka.delete_topic(topic)
    kafka.create_topic(topic)
    kafka.produce(topic, 0, some_records(3))
    with pytest.raises(TopicChangedError, match=f"reading {topic}-0 offsets 0 to 3: the topic's id is"):
        list(read_range(worker, wanted, options))
    assert read(worker, kafka, topic) == some_records(3)


async def test_reading_continues_when_the_leader_moves(topic: str) -> None:
    async with Cluster(brokers=2) as brokers:
        await brokers.create_topic(topic, replication=2)
        async with ClusterClient(ClusterConfig.parse({"bootstrap_servers": brokers.bootstrap_servers})) as cluster:
            await cluster.topic(topic)
            leader = cluster.snapshot.leader(topic, 0)
            assert leader is not None
            kafka = Kafka.of(brokers.bootstrap_servers, cluster)
            for start in (0, 10):
                await kafka.append_to(topic, 0, encode(some_records(10)), base=start)
            options = kafka.read_options(subscribe=topic, **{"kafka.max.partition.fetch.bytes": "1"})
            (wanted,) = (await plan(cluster, options)).ranges
            fetcher = RangeFetcher(cluster, wanted, options)
            assert offsets(await fetcher.fetch()) == [0]
            await brokers.move_leader(topic, 0)
            assert offsets(await fetcher.fetch()) == [10]
            assert cluster.snapshot.leader(topic, 0) != leader
            assert fetcher.done
            assert await fetcher.fetch() is None


def options_for_nothing(**options: str) -> ReadOptions:
    from aiokproto.spark.options import parse_read_options

    return parse_read_options({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", **options})


def test_a_batch_that_grows_is_read_in_pieces() -> None:
    records = [BatchRecord(offset, NOW, None, bytes(MIB)) for offset in range(20)]
    records.append(BatchRecord(20, NOW, None, bytes(9 * MIB)))
    batch = RecordBatch(encode(records, compression="zstd"))
    wanted = OffsetRange("t", bytes(16), 0, 3, 21)
    tables = list(to_arrow([batch, batch], wanted, options_for_nothing()))
    assert [table["offset"].to_pylist() for table in tables] == [
        [3, 4, 5, 6],
        [*range(7, 14)],
        [*range(14, 20)],
        [20],
    ] * 2


def test_small_records_are_not_too_many_at_a_time() -> None:
    builder = BatchBuilder()
    for _ in range(MAX_RECORDS + 1):
        builder.append(NOW, None, None, ())
    wanted = OffsetRange("t", bytes(16), 0, 0, 1 << 20)
    tables = to_arrow([RecordBatch(builder.close())], wanted, options_for_nothing())
    assert [table.num_rows for table in tables] == [MAX_RECORDS, 1]


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="the peak memory of a process is read from /proc, on Linux")
@pytest.mark.parametrize("codec", [Compression.ZSTD, pytest.param(Compression.LZ4, marks=pytest.mark.extended)])
def test_memory_does_not_depend_on_the_decompressed_size(codec: Compression) -> None:
    """Of 3 GiB of records, in a process that does nothing else: what Python does not know of counts, too."""
    grown = subprocess.run(
        [sys.executable, "-c", GROWING, str(int(codec))], capture_output=True, text=True, check=False
    )
    assert grown.returncode == 0, grown.stderr
    rows, mebibytes = map(int, grown.stdout.split())
    assert rows == 3072
    assert mebibytes < 150, mebibytes


def test_damage_is_found_and_named() -> None:
    damaged = bytearray(encode(some_records(5), base_offset=40))
    damaged[-2] ^= 1
    wanted = OffsetRange("t", bytes(16), 3, 40, 45)
    with pytest.raises(CorruptRecordError, match="reading t-3 offsets 40 to 45: record batch at offset 40: checksum"):
        list(to_arrow([RecordBatch(damaged)], wanted, options_for_nothing()))


def test_an_unknown_codec_is_named() -> None:
    packed = bytearray(encode(some_records(5), base_offset=40, compression="zstd"))
    packed[22] = 7
    wanted = OffsetRange("t", bytes(16), 3, 40, 45)
    options = options_for_nothing(**{"kafka.check.crcs": "false"})
    with pytest.raises(UnsupportedCompressionError, match=r"reading t-3 offsets 40 to 45: .*at offset 40: .* codec 7"):
        list(to_arrow([RecordBatch(packed)], wanted, options))


def test_checksums_need_not_be_compared() -> None:
    builder = BatchBuilder()
    builder.append(NOW, None, b"value", ())
    damaged = builder.close()
    damaged[-2] ^= 1
    wanted = OffsetRange("t", bytes(16), 0, 0, 1)
    (table,) = to_arrow([RecordBatch(damaged)], wanted, options_for_nothing(**{"kafka.check.crcs": "false"}))
    assert table["value"].to_pylist() == [b"valud"]


def test_connections_are_kept_from_task_to_task_but_not_without_limit(kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic)
    worker = Worker()
    try:
        first = worker.cluster(kafka.read_options(subscribe=topic).connection, topic)
        assert worker.cluster(kafka.read_options(subscribe=topic).connection, topic) is first
        for number in range(MAX_KEPT):
            options = kafka.read_options(subscribe=topic, **{"kafka.client.id": str(number)})
            assert worker.cluster(options.connection, topic) is not first
        assert worker.cluster(kafka.read_options(subscribe=topic).connection, topic) is not first
    finally:
        worker.close()


def test_a_closed_connection_is_opened_again(kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic)
    worker = Worker()
    try:
        options = kafka.read_options(subscribe=topic)
        first = worker.cluster(options.connection, topic)
        worker.start(first.close()).result()
        assert worker.cluster(options.connection, topic) is not first
    finally:
        worker.close()


def test_cancelling_a_fetch_loses_nothing(kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic)
    kafka.produce(topic, 0, some_records(5))
    options = kafka.read_options(subscribe=topic)
    wanted = replace(plan_now(options).ranges[0], end=10)

    async def interrupted() -> list[int]:
        fetcher = RangeFetcher(kafka.client, wanted, options)
        assert offsets(await fetcher.fetch()) == [0]
        fetch = asyncio.ensure_future(fetcher.fetch())
        await asyncio.sleep(0)
        fetch.cancel()
        with pytest.raises(asyncio.CancelledError):
            await fetch
        await kafka.append_to(topic, 0, encode(some_records(5)), base=5)
        return offsets(await fetcher.fetch())

    assert kafka.run(interrupted()) == [5]
