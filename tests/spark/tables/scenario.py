"""Streams between topics and tables of Delta Lake and Iceberg, in a process with their jars: see `test_tables`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aiokproto.records import BatchRecord
from tests.spark.kafka import Kafka
from tests.spark.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamWriter

JARS = "TABLE_JARS"
"""The environment variable with the jars, separated by commas."""

CATALOGS = {"delta": "default", "iceberg": "lake.default"}
"""The namespace of each table format."""

START = 1_767_225_600_000
"""The timestamp of the first record (ms); each is a second later."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    warehouse = tmp_path_factory.mktemp("warehouse")
    extensions = (
        "io.delta.sql.DeltaSparkSessionExtension",
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    )
    settings = {
        "spark.jars": os.environ[JARS],
        "spark.sql.extensions": ",".join(extensions),
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.lake.type": "hadoop",
        "spark.sql.catalog.lake.warehouse": str(warehouse / "lake"),
    }
    session = start_session(warehouse, settings)
    yield session
    session.stop()


@pytest.fixture(params=CATALOGS)
def table(request: pytest.FixtureRequest, topic: str) -> str:
    """The name of a table that does not exist yet."""
    return f"{CATALOGS[request.param]}.t_{topic.replace('-', '_')}"


@pytest.fixture
def table_format(table: str) -> str:
    return next(name for name, namespace in CATALOGS.items() if table.startswith(f"{namespace}."))


def produce(kafka: Kafka, topic: str, first: int, count: int) -> None:
    """Produce to both partitions, a record a second."""
    for partition in range(2):
        records = [BatchRecord(n, START + 1000 * n, b"k%d" % n, b"%d" % n) for n in range(first, first + count)]
        kafka.produce(topic, partition, records)


def records_of(spark: SparkSession, kafka: Kafka, topic: str, **options: str) -> DataFrame:
    return spark.read.format("aiokproto").options(**kafka.options(subscribe=topic, **options)).load()


def rows_of(frame: DataFrame) -> list[tuple[object, ...]]:
    chosen = frame.select("topic", "partition", "offset", "timestamp", "key", "value")
    return sorted(tuple(row) for row in chosen.collect())


def load_into(spark: SparkSession, kafka: Kafka, topic: str, table: str, table_format: str, checkpoint: Path) -> None:
    rows = spark.readStream.format("aiokproto").options(**kafka.options(subscribe=topic, startingOffsets="earliest"))
    run(rows.load().writeStream.format(table_format), checkpoint, table)


def run(writer: DataStreamWriter, checkpoint: Path, table: str | None = None) -> None:
    """Run a stream until it has read what is there."""
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    query = writer.start() if table is None else writer.toTable(table)
    query.awaitTermination()


def forget_last_batch(checkpoint: Path) -> None:
    """Leave a checkpoint as a driver does that is killed once the sink has the batch, but Spark has not noted it."""
    last = max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdigit())
    for file in (checkpoint / "commits").glob(f"*{last}*"):
        file.unlink()


def test_a_batch_that_is_repeated_is_in_the_table_once(
    spark: SparkSession, kafka: Kafka, topic: str, table: str, table_format: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic, 2)
    for first in (0, 50):
        produce(kafka, topic, first, 50)
        # A run is one batch before Spark 4.2, and the repeated one is the first.
        for _ in range(2):
            load_into(spark, kafka, topic, table, table_format, tmp_path)
        assert rows_of(spark.table(table)) == rows_of(records_of(spark, kafka, topic))
        forget_last_batch(tmp_path)
    load_into(spark, kafka, topic, table, table_format, tmp_path)
    found = rows_of(spark.table(table))
    assert len(found) == 200
    assert found == rows_of(records_of(spark, kafka, topic))


def test_rows_from_a_time_on_are_read_again(
    spark: SparkSession, kafka: Kafka, topic: str, table: str, table_format: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic, 2)
    produce(kafka, topic, 0, 100)
    load_into(spark, kafka, topic, table, table_format, tmp_path)
    spark.sql(f"UPDATE {table} SET value = CAST('wrong' AS BINARY) WHERE offset >= 50 AND offset % 3 = 0")
    spark.sql(f"DELETE FROM {table} WHERE offset >= 50 AND offset % 3 = 1")
    assert rows_of(spark.table(table)) != rows_of(records_of(spark, kafka, topic))
    # These include records that the stream hasn't read yet, and will read, too.
    produce(kafka, topic, 100, 10)
    again = records_of(spark, kafka, topic, startingTimestamp=str(START + 50_000))
    assert again.count() == 120
    again.createOrReplaceTempView("again")
    merge = f"""
        MERGE INTO {table} AS old USING again AS new
        ON old.topic = new.topic AND old.partition = new.partition AND old.offset = new.offset
        WHEN MATCHED THEN UPDATE SET *
        WHEN NOT MATCHED AND new.offset < 100 THEN INSERT *
    """
    for _ in range(2):
        spark.sql(merge)
        assert rows_of(spark.table(table)) == rows_of(records_of(spark, kafka, topic).where("offset < 100"))
    load_into(spark, kafka, topic, table, table_format, tmp_path)
    assert rows_of(spark.table(table)) == rows_of(records_of(spark, kafka, topic))


def test_rows_of_a_table_are_written_once(
    spark: SparkSession, kafka: Kafka, topic: str, table: str, table_format: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic, 2)
    kafka.create_topic(f"{topic}-out", 2)
    produce(kafka, topic, 0, 50)
    load_into(spark, kafka, topic, table, table_format, tmp_path / "in")
    options = {"topic": f"{topic}-out", "semantics": "exactly_once", "transactionalIdPrefix": topic}
    for _ in range(2):
        rows = spark.readStream.table(table).select("key", "value")
        run(rows.writeStream.format("aiokproto").options(**kafka.options(**options)), tmp_path / "out")
        forget_last_batch(tmp_path / "out")
    found = records_of(spark, kafka, f"{topic}-out", **{"kafka.isolation.level": "read_committed"})
    assert sorted(int(row.value) for row in found.collect()) == sorted([*range(50)] * 2)
