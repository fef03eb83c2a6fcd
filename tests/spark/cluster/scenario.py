"""Reads, writes, streams and loads on a cluster whose executors are processes of their own, and are killed.

`test_cluster` runs it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aiokproto.records import BatchRecord
from aiokproto.spark import load, read, runs
from tests.spark.cluster.kills import KillOnce, Victim
from tests.spark.kafka import Kafka
from tests.spark.session import java_options, start_session
from tests.spark.sink.exactly_once.test_writes import committed
from tests.spark.test_source import collected, fill
from tests.timeouts import LONG_TIMEOUT
from tools.setup.project import ROOT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

PARTITIONS = 4
ROWS = 5_000
"""The rows of a partition: Spark passes them on in several batches."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Two executors with a core each, which the cluster starts again."""
    import pyspark

    settings = {
        "spark.master": "local-cluster[2,1,1024]",
        "spark.executor.extraJavaOptions": java_options(),
        "spark.executorEnv.PYTHONPATH": os.environ["PYTHONPATH"],
        "spark.sql.execution.arrow.maxRecordsPerBatch": "500",
        "spark.task.maxFailures": "8",
    }
    with pytest.MonkeyPatch.context() as patch:
        # Executors are started by Spark's scripts.
        patch.setenv("SPARK_HOME", str(Path(pyspark.__file__).parent))
        patch.chdir(ROOT)
        session = start_session(tmp_path_factory.mktemp("warehouse"), settings)
        yield session
        session.stop()


def killing(victim: Victim) -> pytest.MarkDecorator:
    """Every run kills this victim, and the thorough one the other one, too."""
    other: Victim = "worker" if victim == "executor" else "executor"
    return pytest.mark.parametrize("kill", [victim, pytest.param(other, marks=pytest.mark.thorough)], indirect=True)


@pytest.fixture
def kill(request: pytest.FixtureRequest, tmp_path: Path) -> KillOnce:
    victim: Victim = request.param
    return KillOnce(tmp_path / "killed", victim, 1_500)


@pytest.fixture
def source(kafka: Kafka, topic: str) -> str:
    """A topic with ``ROWS`` records in each partition; their values are numbers, each there once."""
    kafka.create_topic(topic, PARTITIONS)
    for partition in range(PARTITIONS):
        first = partition * ROWS
        for start in range(0, ROWS, 500):
            records = [BatchRecord(n, 1000, None, b"%d" % (first + n)) for n in range(start, start + 500)]
            kafka.produce(topic, partition, records)
    return topic


EVERY = sorted(map(str, range(PARTITIONS * ROWS)))
"""The values of ``source``, as text."""


def records_of(spark: SparkSession, kafka: Kafka, topic: str, **options: str) -> DataFrame:
    return spark.read.format("aiokproto").options(**kafka.options(subscribe=topic, **options)).load()


def stream_of(spark: SparkSession, kafka: Kafka, topic: str) -> DataFrame:
    options = kafka.options(subscribe=topic, startingOffsets="earliest")
    return spark.readStream.format("aiokproto").options(**options).load()


def values(rows: DataFrame) -> list[str]:
    return sorted(bytes(row.value).decode() for row in rows.select("value").collect())


def run(writer: DataStreamWriter, checkpoint: Path) -> None:
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(4 * int(LONG_TIMEOUT))
    finally:
        query.stop()


def test_executors_find_the_source_and_have_every_row(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    expected = fill(kafka, topic)
    assert collected(records_of(spark, kafka, topic, includeHeaders="true", minPartitions="6")) == expected


@killing("worker")
def test_a_read(spark: SparkSession, kafka: Kafka, source: str, kill: KillOnce) -> None:
    assert values(kill.on(records_of(spark, kafka, source))) == EVERY
    assert kill.done


@killing("worker")
def test_a_stream_that_is_read(spark: SparkSession, kafka: Kafka, source: str, kill: KillOnce, tmp_path: Path) -> None:
    rows = kill.on(stream_of(spark, kafka, source))
    run(rows.writeStream.format("parquet").option("path", str(tmp_path / "rows")), tmp_path / "checkpoint")
    assert kill.done
    assert values(spark.read.parquet(str(tmp_path / "rows"))) == EVERY


@killing("worker")
def test_a_write_at_least_once(spark: SparkSession, kafka: Kafka, source: str, kill: KillOnce) -> None:
    kafka.create_topic(f"{source}-out", 2)
    rows = kill.on(records_of(spark, kafka, source).select("value"))
    rows.write.format("aiokproto").options(**kafka.options(topic=f"{source}-out")).mode("append").save()
    assert kill.done
    written = values(records_of(spark, kafka, f"{source}-out"))
    assert sorted(set(written)) == EVERY
    assert len(written) <= len(EVERY) + 2 * ROWS


@killing("worker")
def test_a_write_exactly_once(spark: SparkSession, kafka: Kafka, source: str, kill: KillOnce) -> None:
    kafka.create_topic(f"{source}-out", 2)
    rows = kill.on(records_of(spark, kafka, source).select("value"))
    options = kafka.options(topic=f"{source}-out", semantics="exactly_once", transactionalIdPrefix=source)
    rows.write.format("aiokproto").options(**options).mode("append").save()
    assert kill.done
    assert committed(spark, kafka, f"{source}-out") == EVERY


@killing("executor")
def test_a_stream_that_is_written_exactly_once(
    spark: SparkSession, kafka: Kafka, source: str, kill: KillOnce, tmp_path: Path
) -> None:
    kafka.create_topic(f"{source}-out", 2)
    rows = kill.on(stream_of(spark, kafka, source).select("value"))
    options = kafka.options(topic=f"{source}-out", semantics="exactly_once")
    run(rows.writeStream.format("aiokproto").options(**options), tmp_path / "checkpoint")
    assert kill.done
    assert committed(spark, kafka, f"{source}-out") == EVERY


@killing("executor")
def test_a_load(spark: SparkSession, kafka: Kafka, source: str, kill: KillOnce, tmp_path: Path) -> None:
    out, servers = tmp_path / "out", kafka.bootstrap_servers
    result = load(spark, source, out, bootstrap_servers=servers, transform=lambda rows: kill.on(rows))
    assert kill.done
    assert result.rows == len(EVERY)
    assert values(read(spark, out)) == EVERY
    (manifest,) = runs(out)
    assert [one.rows for one in manifest.partitions] == [ROWS] * PARTITIONS
    assert load(spark, source, out, bootstrap_servers=servers).run_id is None
