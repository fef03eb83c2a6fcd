"""Batches and streams that Spark writes exactly once."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aiokproto.spark.sink.options import STATE_TOPIC
from tests.spark.kafka import Kafka
from tests.spark.test_reading import some_records
from tests.timeouts import LONG_TIMEOUT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


def committed(spark: SparkSession, kafka: Kafka, topic: str) -> list[str]:
    """The values that readers of committed records see, as text."""
    options = kafka.options(subscribe=topic, **{"kafka.isolation.level": "read_committed"})
    rows = spark.read.format("aiokproto").options(**options).load().select("value").collect()
    return sorted("null" if row["value"] is None else row["value"].decode("latin-1") for row in rows)


def write(kafka: Kafka, rows: DataFrame, **options: str) -> None:
    given = kafka.options(semantics="exactly_once", **options)
    rows.write.format("aiokproto").options(**given).mode("append").save()


def numbered(spark: SparkSession, begin: int, end: int, partitions: int = 3) -> DataFrame:
    return spark.range(begin, end, 1, partitions).selectExpr("cast(id AS string) AS value")


def run_stream(spark: SparkSession, kafka: Kafka, source: str, target: str, checkpoint: Path, **options: str) -> Any:
    given = kafka.options(subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="20")
    rows = spark.readStream.format("aiokproto").options(**given).load().select("key", "value")
    written = kafka.options(topic=target, checkpointLocation=str(checkpoint), semantics="exactly_once", **options)
    query = rows.writeStream.format("aiokproto").options(**written).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(4 * int(LONG_TIMEOUT)), "the query is stuck"
    finally:
        query.stop()
    return query


def test_a_batch_is_committed_once_under_its_job_id(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic, 3)
    for _ in range(2):
        write(kafka, numbered(spark, 0, 100), topic=topic, transactionalIdPrefix=topic, jobId="monday")
    assert committed(spark, kafka, topic) == sorted(str(n) for n in range(100))
    write(kafka, numbered(spark, 100, 120), topic=topic, transactionalIdPrefix=topic, jobId="tuesday")
    for _ in range(2):
        write(kafka, numbered(spark, 120, 125), topic=topic, transactionalIdPrefix=topic)
    expected = [*range(120), *range(120, 125), *range(120, 125)]
    assert committed(spark, kafka, topic) == sorted(str(n) for n in expected)


def test_a_stream_and_its_next_run(spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path) -> None:
    source = f"{topic}-source"
    kafka.create_topic(source, 2)
    kafka.create_topic(topic, 3)
    kafka.produce(source, 0, some_records(30))
    run_stream(spark, kafka, source, topic, tmp_path / "checkpoint")
    kafka.produce(source, 1, some_records(7))
    # A checkpoint that is moved still belongs to its query.
    (tmp_path / "checkpoint").rename(tmp_path / "moved")
    run_stream(spark, kafka, source, topic, tmp_path / "moved")
    assert committed(spark, kafka, topic) == committed(spark, kafka, source)
    assert len(committed(spark, kafka, topic)) == 37
    query = json.loads((tmp_path / "moved" / "metadata").read_text())["id"]
    state = (
        spark.read.format("aiokproto").options(**kafka.options(subscribe=STATE_TOPIC, includeHeaders="false")).load()
    )
    keys = [json.loads(row["key"]) for row in state.select("key").collect() if row["key"] is not None]
    assert {key["prefix"] for key in keys if key.get("run") == query} == {f"spark-{query}"}


@pytest.mark.extended
def test_a_copy_of_a_checkpoint_that_lacks_the_last_batch_alone_is_refused(
    spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    """It would plan a batch with this number and further records, which would then count as written."""
    source = f"{topic}-source"
    kafka.create_topic(source, 2)
    kafka.create_topic(topic)
    kafka.produce(source, 0, some_records(5))
    run_stream(spark, kafka, source, topic, tmp_path / "checkpoint")
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "copy")
    kafka.produce(source, 1, some_records(5))
    run_stream(spark, kafka, source, topic, tmp_path / "checkpoint")
    shutil.copytree(tmp_path / "checkpoint", tmp_path / "newest")
    kafka.produce(source, 0, some_records(5, 5))
    with pytest.raises(Exception, match="is committed with other offsets"):
        run_stream(spark, kafka, source, topic, tmp_path / "copy")
    run_stream(spark, kafka, source, topic, tmp_path / "newest")
    assert committed(spark, kafka, topic) == committed(spark, kafka, source)


@pytest.mark.extended
def test_a_batch_that_fails_leaves_nothing(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic)
    rows = numbered(spark, 0, 40).selectExpr("value", "if(value = '35', cast(9 AS int), cast(0 AS int)) AS partition")
    with pytest.raises(Exception, match="partition 9 does not exist"):
        write(kafka, rows, topic=topic, transactionalIdPrefix=topic)
    assert committed(spark, kafka, topic) == []
    write(kafka, numbered(spark, 0, 5), topic=topic, transactionalIdPrefix=topic)
    assert committed(spark, kafka, topic) == sorted(str(n) for n in range(5))
