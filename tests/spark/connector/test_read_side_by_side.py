"""The same topics read by Spark's own connector and by this source: all rows, all columns."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from aiokproto.producer import Producer
from aiokproto.records import BatchRecord
from tests.behaviour.test_log import COMPACT, read
from tests.behaviour.waiting import until
from tests.clusters import real_cluster
from tests.kafka.pool import RunningKafka
from tests.spark.kafka import Kafka
from tests.spark.test_reading import CODECS, some_records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ISOLATION = ("read_uncommitted", "read_committed")


def every_codec(kafka: Kafka, topic: str) -> int:
    kafka.create_topic(topic, 3)
    for number in range(60):
        kafka.produce(topic, number % 2, some_records(20, 20 * (number // 2)), CODECS[number % len(CODECS)])
    return 1200


def small_batches(kafka: Kafka, topic: str) -> int:
    """Batches with one record each, then a compressed one, and small ones again."""
    kafka.create_topic(topic)
    for number in range(90):
        kafka.produce(topic, 0, some_records(1, number), "gzip" if number == 50 else "none")
    return 90


def times_of_the_broker(kafka: Kafka, topic: str) -> int:
    kafka.create_topic(topic, config={"message.timestamp.type": "LogAppendTime"})
    for number, codec in enumerate(CODECS):
        kafka.produce(topic, 0, some_records(10, 10 * number), codec)
    return 50


def trimmed(kafka: Kafka, topic: str) -> int:
    kafka.create_topic(topic)
    for number in range(4):
        kafka.produce(topic, 0, some_records(10, 10 * number))
    kafka.delete_records(topic, 0, 13)
    return 27


def transactions(kafka: Kafka, topic: str) -> int:
    """Two producers, whose transactions overlap: every third one is aborted. Markers leave gaps."""
    kafka.create_topic(topic)

    async def write() -> None:
        servers = kafka.bootstrap_servers
        async with (
            Producer(bootstrap_servers=servers, transactional_id=f"{topic}-1") as first,
            Producer(bootstrap_servers=servers, transactional_id=f"{topic}-2") as second,
            Producer(bootstrap_servers=servers) as plain,
        ):
            for number in range(9):
                one, other = first.transaction(), second.transaction()
                await one.__aenter__()
                await other.__aenter__()
                for place in range(5):
                    for writer in (one, other, plain):
                        await writer.send(topic, b"%d-%d" % (number, place), key=b"k", headers=[("h", b"v")])
                await (one.abort() if number % 3 == 0 else one.commit())
                await (other.abort() if number % 3 == 1 else other.commit())

    kafka.run(write())
    return 9 * 5 * 3


TOPICS: Mapping[str, Callable[[Kafka, str], int]] = {
    made.__name__.replace("_", " "): made
    for made in (every_codec, small_batches, times_of_the_broker, trimmed, transactions)
}

EVERY_RUN = ("every codec", "transactions")
"""The topics that have most features of the others: several partitions and batches, and offsets without a record."""


@pytest.mark.parametrize(
    "name", [name if name in EVERY_RUN else pytest.param(name, marks=pytest.mark.extended) for name in TOPICS]
)
def test_both_read_the_same_rows(official: SparkSession, kafka: Kafka, topic: str, name: str) -> None:
    count = TOPICS[name](kafka, topic)

    def rows(connector: str, **options: str) -> list[Any]:
        given = kafka.options(subscribe=topic, includeHeaders="true", **options)
        frame = official.read.format(connector).options(**given).load()
        return frame.orderBy("partition", "offset").collect()

    for level in ISOLATION:
        options = {"kafka.isolation.level": level, "kafka.fetch.max.wait.ms": "10"}
        found = rows("aiokproto", **options)
        assert found == rows("kafka", **options)
        # A third of the transactional ones is aborted, of either producer.
        left = count if level == "read_uncommitted" or name != "transactions" else count - 2 * 3 * 5
        assert len(found) == left


KEPT = (3, 8, 9, 25, 31, 39, 40)
"""The offsets that compaction leaves: the ones of keys that occur once, and the last one of the other records' key."""

TOMBSTONES = (9, 31)

RANGES = ((0, 41), (1, 9), (4, 8), (5, 41), (9, 10), (10, 25), (26, 39), (32, 40))
"""Ranges that start, end, or both, where compaction left nothing."""


async def compacted(kafka: RunningKafka, topic: str) -> None:
    """Write a topic, in small batches and in large ones, and wait until Kafka's cleaner has been there."""

    async def send(producer: Producer, number: int, timestamp: int | None = 1_000) -> None:
        key = "common" if number == 39 or number not in KEPT else f"own-{number}"
        value = None if number in TOMBSTONES else b"%d" % number
        await producer.send(topic, value, key=key.encode(), timestamp=timestamp)

    async with real_cluster(kafka) as cluster:
        await cluster.create_topic(topic, config=COMPACT)
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for number in range(20):
                await send(producer, number)
            await asyncio.gather(*(send(producer, number) for number in range(20, 40)))
            # This starts the newest segment, which compaction leaves alone.
            await send(producer, 40, None)
        await until(lambda: read(cluster, topic), lambda found: [one.offset for one in found] == list(KEPT))


@pytest.mark.extended
@pytest.mark.kafka
def test_both_read_the_same_rows_of_a_compacted_topic(official: SparkSession, kafka1: RunningKafka, topic: str) -> None:
    asyncio.run(compacted(kafka1, topic))
    servers = {"kafka.bootstrap.servers": kafka1.bootstrap_servers, "subscribe": topic, "includeHeaders": "true"}

    def rows(connector: str, **options: str) -> list[Any]:
        return official.read.format(connector).options(**servers, **options).load().orderBy("offset").collect()

    def of(offsets: tuple[int, ...], start: int, end: int) -> list[int]:
        return [offset for offset in offsets if start <= offset < end]

    for start, end in RANGES:
        ends = {"startingOffsets": json.dumps({topic: {"0": start}}), "endingOffsets": json.dumps({topic: {"0": end}})}
        found = rows("aiokproto", **ends)
        assert [row["offset"] for row in found] == of(KEPT, start, end)
        assert [row["offset"] for row in found if row["value"] is None] == of(TOMBSTONES, start, end)
        assert found == rows("kafka", **ends) == rows("aiokproto", **ends, minPartitions="7")


@pytest.mark.extended
def test_both_divide_a_topic_into_as_many_tasks(official: SparkSession, kafka: Kafka, topic: str) -> None:
    counts = [5000, *[3] * 7, 700]
    kafka.create_topic(topic, len(counts))
    for partition, count in enumerate(counts):
        kafka.produce(topic, partition, [BatchRecord(number, 0, None, b"v") for number in range(count)])
    # The official connector divides ranges without numbers by other rules.
    ends = {
        "startingOffsets": json.dumps({topic: {str(partition): 0 for partition in range(len(counts))}}),
        "endingOffsets": json.dumps({topic: {str(partition): count for partition, count in enumerate(counts)}}),
    }

    def tasks(connector: str, **options: str) -> int:
        given = kafka.options(subscribe=topic, **ends, **options)
        return official.read.format(connector).options(**given).load().rdd.getNumPartitions()

    more: list[dict[str, str]] = [{}, {"maxRecordsPerPartition": "400"}]
    for wanted in (1, 9, 10, 11, 13, 20, 40, 97):
        for one in more:
            options = {"minPartitions": str(wanted), **one}
            assert tasks("aiokproto", **options) == tasks("kafka", **options), options
