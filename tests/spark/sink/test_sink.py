"""Batches and streams of Spark, written to Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aiokproto.producer import murmur2
from tests.spark.kafka import Kafka
from tests.spark.test_reading import some_records
from tests.timeouts import LONG_TIMEOUT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

EXTENDED = pytest.mark.extended


def stored(spark: SparkSession, kafka: Kafka, topic: str) -> list[Any]:
    rows = spark.read.format("aiokproto").options(**kafka.options(subscribe=topic, includeHeaders="true")).load()
    return rows.orderBy("partition", "offset").collect()


def values(spark: SparkSession, kafka: Kafka, topic: str) -> list[bytes]:
    return sorted(bytes(row["value"]) for row in stored(spark, kafka, topic))


def write(kafka: Kafka, rows: DataFrame, mode: str = "append", **options: str) -> None:
    rows.write.format("aiokproto").options(**kafka.options(**options)).mode(mode).save()


def failure(kafka: Kafka, rows: DataFrame, mode: str = "append", **options: str) -> str:
    with pytest.raises(Exception) as caught:
        write(kafka, rows, mode, **options)
    return str(caught.value)


def test_a_batch_with_every_column(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    """Records that were read are written as they are, in their partitions; what a record has no place for is left."""
    source, target = f"{topic}-source", topic
    kafka.create_topic(source, 3)
    kafka.create_topic(target, 3)
    for partition in range(3):
        kafka.produce(source, partition, some_records(50 + partition))
    rows = spark.read.format("aiokproto").options(**kafka.options(subscribe=source, includeHeaders="true")).load()
    write(kafka, rows, topic=target)
    columns = ("key", "value", "headers", "partition", "offset")
    assert [[row[name] for name in columns] for row in stored(spark, kafka, target)] == [
        [row[name] for name in columns] for row in stored(spark, kafka, source)
    ]


def test_keys_are_placed_as_by_java_and_topics_by_column(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    topics = [topic, f"{topic}-other"]
    for name in topics:
        kafka.create_topic(name, 4)
    rows = spark.range(0, 500, 1, 3).selectExpr(
        "concat('key-', id % 37) AS key",
        "cast(id AS string) AS value",
        f"if(id % 5 = 0, '{topics[0]}', '{topics[1]}') AS topic",
    )
    write(kafka, rows)
    found = [row for name in topics for row in stored(spark, kafka, name)]
    assert sorted(int(row["value"]) for row in found) == list(range(500))
    for row in found:
        number = int(row["value"])
        assert bytes(row["key"]) == b"key-%d" % (number % 37)
        assert row["partition"] == (murmur2(bytes(row["key"])) & 0x7FFFFFFF) % 4
        assert row["topic"] == topics[min(number % 5, 1)]


@pytest.mark.parametrize("codec", ["zstd", *(pytest.param(name, marks=EXTENDED) for name in ("gzip", "snappy", "lz4"))])
def test_compressed_rows(spark: SparkSession, kafka: Kafka, topic: str, codec: str) -> None:
    kafka.create_topic(topic)
    rows = spark.range(0, 1000, 1, 2).selectExpr("cast(id AS string) AS value")
    write(kafka, rows, topic=topic, **{"kafka.compression.type": codec})
    assert values(spark, kafka, topic) == sorted(b"%d" % number for number in range(1000))


@pytest.mark.extended
def test_no_mode_replaces_records(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic)
    rows = spark.range(3).selectExpr("cast(id AS string) AS value")
    assert 'use mode("append")' in failure(kafka, rows, "overwrite", topic=topic)
    assert "append" in failure(kafka, rows, "ignore", topic=topic).lower()
    assert values(spark, kafka, topic) == []


def test_errors_say_what_is_wrong(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic, 2)
    rows = spark.range(0, 4, 1, 1).selectExpr("cast(id AS string) AS value", "cast(id AS int) AS partition")
    assert "the column topic is required, or the option topic" in failure(kafka, rows)
    assert "column value is bigint: cast it to binary or string" in failure(
        kafka, spark.range(1).selectExpr("id AS value"), topic=topic
    )
    assert "did you mean 'kafka.linger.ms'?" in failure(kafka, rows, topic=topic, **{"kafka.linger": "1"})
    assert "they begin with transactionalIdPrefix" in failure(
        kafka, rows, topic=topic, **{"kafka.transactional.id": "x"}
    )
    text = failure(kafka, rows, topic=topic)
    assert f"task 0: topic {topic}, rows from 0 on: row 2: partition 2 does not exist" in text
    assert "_check" not in text, "the frames of this package are no use to the user"
    nowhere = rows.selectExpr("value", "if(value = '3', null, 'x') AS topic")
    assert "task 0: row 3: the topic is null" in failure(kafka, nowhere)


@pytest.mark.extended
def test_a_stream_and_its_next_run(spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path) -> None:
    source = f"{topic}-source"
    kafka.create_topic(source, 2)
    kafka.create_topic(topic, 3)

    def pairs(name: str) -> list[str]:
        return sorted(repr((row["key"], row["value"])) for row in stored(spark, kafka, name))

    def run() -> None:
        rows = (
            spark.readStream.format("aiokproto")
            .options(**kafka.options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="20"))
            .load()
        )
        query = (
            rows.select("key", "value")
            .writeStream.format("aiokproto")
            .options(**kafka.options(topic=topic, checkpointLocation=str(tmp_path / "checkpoint")))
            .queryName(f"sink-{tmp_path.name}")
            .trigger(availableNow=True)
            .start()
        )
        try:
            assert query.awaitTermination(4 * int(LONG_TIMEOUT)), "the query is stuck"
        finally:
            query.stop()

    kafka.produce(source, 0, some_records(30))
    run()
    assert pairs(topic) == pairs(source)
    kafka.produce(source, 1, some_records(7))
    run()
    assert pairs(topic) == pairs(source)
    assert len(pairs(topic)) == 37


@pytest.mark.extended
def test_a_stream_in_complete_mode_appends_each_result(
    spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    """As with the official connector."""
    source = f"{topic}-source"
    kafka.create_topic(source)
    kafka.create_topic(topic)
    kafka.produce(source, 0, some_records(9))
    rows = spark.readStream.format("aiokproto").options(**kafka.options(subscribe=source, startingOffsets="earliest"))
    query = (
        rows.load()
        .groupBy()
        .count()
        .selectExpr("cast(count AS string) AS value")
        .writeStream.format("aiokproto")
        .outputMode("complete")
        .options(**kafka.options(topic=topic, checkpointLocation=str(tmp_path / "checkpoint")))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(4 * int(LONG_TIMEOUT)), "the query is stuck"
    finally:
        query.stop()
    assert values(spark, kafka, topic) == [b"9"]


def test_the_errors_of_a_stream_say_what_is_wrong(
    spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic)
    kafka.produce(topic, 0, some_records(3))
    rows = spark.readStream.format("aiokproto").options(**kafka.options(subscribe=topic, startingOffsets="earliest"))
    query = (
        rows.load()
        .select("value")
        .writeStream.format("aiokproto")
        .options(**kafka.options(checkpointLocation=str(tmp_path / "checkpoint")))
        .trigger(availableNow=True)
        .start()
    )
    with pytest.raises(Exception, match="the column topic is required, or the option topic"):
        query.awaitTermination(4 * int(LONG_TIMEOUT))
