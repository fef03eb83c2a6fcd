"""The same topics read by Spark's own connector and by this source: all rows, all columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest

from aiokproto.producer import Producer
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
    """A record each; then one that is compressed, and small ones again."""
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


@pytest.mark.parametrize("name", TOPICS)
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
