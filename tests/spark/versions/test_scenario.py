"""A scenario of PySpark users, on the installed release, or on one that `test_others` selects."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aiokproto.broker import Broker, Security, ThreadedCluster
from aiokproto.records import BatchRecord
from aiokproto.spark import load, read, register, rerun, runs, vacuum
from tests.spark.kafka import Kafka
from tests.spark.sink.exactly_once.test_writes import committed
from tests.spark.test_reading import some_records
from tests.spark.test_source import collected, fill
from tests.timeouts import LONG_TIMEOUT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EXPECTED = "EXPECTED_PYSPARK"
"""The environment variable with the release that this is to be; without it the one that is installed is right."""

pytestmark = [pytest.mark.spark, pytest.mark.thorough]


def frame(spark: SparkSession, kafka: Kafka, **options: str) -> DataFrame:
    return spark.read.format("aiokproto").options(**kafka.options(**options)).load()


def offsets(rows: DataFrame) -> list[int]:
    return sorted(row["offset"] for row in rows.collect())


def test_driver_jvm_and_tasks_are_of_the_expected_release(spark: SparkSession) -> None:
    import pyspark

    def releases(_: Iterable[int]) -> Iterator[str]:
        import pyspark

        yield pyspark.__version__

    (in_task,) = spark.sparkContext.parallelize([0], 1).mapPartitions(releases).collect()
    assert {pyspark.__version__, spark.version, in_task} == {os.environ.get(EXPECTED, version("pyspark"))}


def test_an_empty_topic_has_no_rows(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic, 2)
    assert frame(spark, kafka, subscribe=topic, includeHeaders="true").collect() == []
    assert frame(spark, kafka, subscribe=topic, columns="value").collect() == []
    assert frame(spark, kafka, subscribe=topic).count() == 0


def test_every_row_is_what_was_produced(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    expected = fill(kafka, topic)
    rows = frame(spark, kafka, subscribe=topic, includeHeaders="true", minPartitions="6")
    assert collected(rows) == expected


def test_fewer_columns_and_rows(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    """The option, the schema and the query select columns."""
    kafka.create_topic(topic)
    kafka.produce(topic, 0, some_records(20))
    rows = frame(spark, kafka, subscribe=topic)
    assert rows.count() == 20
    assert offsets(rows.select("offset").where("offset >= 15 AND partition = 0")) == [15, 16, 17, 18, 19]
    assert len(rows.limit(3).collect()) == 3
    assert frame(spark, kafka, subscribe=topic, columns="offset,topic").columns == ["offset", "topic"]
    assert offsets(frame(spark, kafka, subscribe=topic, columns="offset,topic")) == list(range(20))
    given = spark.read.format("aiokproto").options(**kafka.options(subscribe=topic)).schema("offset bigint").load()
    assert offsets(given) == list(range(20))


def test_registering_again_changes_nothing(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    """Neither in a session that registered it before, nor in one that has found the source by itself."""
    kafka.create_topic(topic)
    kafka.produce(topic, 0, some_records(3))
    for session in (spark, spark.newSession()):
        assert offsets(frame(session, kafka, subscribe=topic)) == [0, 1, 2]
        for _ in range(2):
            register(session)
            assert offsets(frame(session, kafka, subscribe=topic)) == [0, 1, 2]


def test_registering_before_the_first_read(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic)
    kafka.produce(topic, 0, some_records(3))
    session = spark.newSession()
    register(session)
    assert offsets(frame(session, kafka, subscribe=topic)) == [0, 1, 2]


def test_sql(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic, 2)
    kafka.produce(topic, 1, some_records(30))
    options = ", ".join(f"`{name}` '{value}'" for name, value in kafka.options(subscribe=topic).items())
    spark.sql(f"CREATE TEMPORARY VIEW versions USING aiokproto OPTIONS ({options})")
    try:
        (row,) = spark.sql("SELECT partition, count(*), max(offset) FROM versions GROUP BY partition").collect()
    finally:
        spark.catalog.dropTempView("versions")
    assert tuple(row) == (1, 30, 29)


def test_a_table_of_the_catalog_is_refused_when_it_is_made(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    """Spark would not pass its options to a reader."""
    kafka.create_topic(topic)
    options = ", ".join(f"`{name}` '{value}'" for name, value in kafka.options(subscribe=topic).items())
    with pytest.raises(Exception, match="CREATE TEMPORARY VIEW"):
        spark.sql(f"CREATE TABLE versions_table USING aiokproto OPTIONS ({options})")
    assert not spark.catalog.tableExists("versions_table")


def test_a_batch_is_written(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic, 3)
    rows = spark.range(0, 100, 1, 2).selectExpr(
        "cast(id % 7 AS string) AS key",
        "cast(id AS string) AS value",
        "array(named_struct('key', 'n', 'value', cast(cast(id AS string) AS binary))) AS headers",
        "if(id % 2 = 0, cast(id % 3 AS int), null) AS partition",
    )
    rows.write.format("aiokproto").options(**kafka.options(topic=topic)).mode("append").save()
    found = frame(spark, kafka, subscribe=topic, includeHeaders="true").collect()
    assert sorted(int(row["value"]) for row in found) == list(range(100))
    for row in found:
        number = int(row["value"])
        assert row["headers"][0]["value"] == row["value"]
        assert bytes(row["key"]) == b"%d" % (number % 7)
        assert number % 2 or row["partition"] == number % 3


def test_what_cannot_be_written_is_refused(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic)
    rows = spark.range(1).selectExpr("'x' AS value")
    with pytest.raises(Exception, match="records of a topic cannot be replaced"):
        rows.write.format("aiokproto").options(**kafka.options(topic=topic)).mode("overwrite").save()
    with pytest.raises(Exception, match="the column topic is required, or the option topic"):
        rows.write.format("aiokproto").options(**kafka.options()).mode("append").save()


def write_stream(spark: SparkSession, kafka: Kafka, source: str, topic: str, checkpoint: Path, **options: str) -> None:
    """Write what a topic has, and a checkpoint does not, to another one."""
    given = kafka.options(subscribe=source, startingOffsets="earliest", includeHeaders="true")
    rows = spark.readStream.format("aiokproto").options(**given).load()
    stream = rows.writeStream.format("aiokproto").options(**kafka.options(topic=topic, **options))
    query = stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(4 * int(LONG_TIMEOUT))
    finally:
        query.stop()


def test_a_stream_is_written(spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path) -> None:
    """With headers and nulls, which reach a stream as Python objects before 4.1."""
    source = f"{topic}-source"
    kafka.create_topic(source)
    kafka.create_topic(topic)
    kafka.produce(source, 0, some_records(40))
    write_stream(spark, kafka, source, topic, tmp_path / "checkpoint")
    columns = ("key", "value", "headers", "partition", "offset")
    written, given = (
        frame(spark, kafka, subscribe=name, includeHeaders="true").select(*columns).orderBy("offset").collect()
        for name in (topic, source)
    )
    assert written == given


def test_a_stream_is_written_exactly_once(spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path) -> None:
    """In two runs from one checkpoint."""
    source = f"{topic}-source"
    kafka.create_topic(source)
    kafka.create_topic(topic)
    for first in (0, 20):
        kafka.produce(source, 0, [BatchRecord(n, 1000, None, b"%d" % n) for n in range(first, first + 20)])
        write_stream(spark, kafka, source, topic, tmp_path / "checkpoint", semantics="exactly_once")
    assert committed(spark, kafka, topic) == sorted(map(str, range(40)))


def test_json_is_written_and_read_with_a_password_of_the_environment(spark: SparkSession, topic: str) -> None:
    # All processes of a session have this variable, on every release.
    security = Security("SASL_PLAINTEXT", users={"etl": os.environ["PYSPARK_PYTHON"]})
    with ThreadedCluster(Broker(security=security)) as cluster:
        cluster.create_topic(topic, partitions=2)
        options = {
            "kafka.bootstrap.servers": cluster.bootstrap_servers,
            "kafka.security.protocol": "SASL_PLAINTEXT",
            "kafka.sasl.mechanism": "SCRAM-SHA-256",
            "kafka.sasl.username": "etl",
            "kafka.sasl.password": "${env:PYSPARK_PYTHON}",
            "subscribe": topic,
            "topic": topic,
            "value.format": "json",
        }
        rows = spark.range(6).selectExpr("struct(cast(id AS int) AS a, 'x' AS b) AS value")
        rows.write.format("aiokproto").options(**options).mode("append").save()
        options["value.schema"] = "a INT, b STRING"
        found = spark.read.format("aiokproto").options(**options).load().where("value.b = 'x'")
        assert sorted(row["a"] for row in found.select("value.a").collect()) == list(range(6))


def test_loads(spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path) -> None:
    """Nothing yet, something, nothing new, more; then the first of them again, and what that leaves behind."""
    servers, written = kafka.bootstrap_servers, some_records(15)
    kafka.create_topic(topic, 2)
    assert load(spark, topic, tmp_path, bootstrap_servers=servers).run_id is None
    kafka.produce(topic, 0, written[:10])
    first = load(spark, topic, tmp_path, bootstrap_servers=servers)
    assert first.run_id is not None
    assert load(spark, topic, tmp_path, bootstrap_servers=servers).run_id is None
    kafka.produce(topic, 0, written[10:])
    second = load(spark, topic, tmp_path, bootstrap_servers=servers, options={"includeHeaders": "true"})
    assert (first.rows, second.rows) == (10, 5)
    again = rerun(
        spark, tmp_path, first.run_id, bootstrap_servers=servers, transform=lambda rows: rows.where("offset < 4")
    )
    assert (again.run_id, again.rows) == (first.run_id, 4)
    assert offsets(read(spark, tmp_path)) == [0, 1, 2, 3, 10, 11, 12, 13, 14]
    assert [(one.run_id, one.rows) for one in runs(tmp_path)] == [(first.run_id, 4), (second.run_id, 5)]
    (replaced,) = vacuum(tmp_path, older_than=timedelta(0), dry_run=True)
    assert (tmp_path / replaced.name).is_dir()


def test_a_load_whose_transform_leaves_no_row(spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path) -> None:
    servers, records = kafka.bootstrap_servers, some_records(9)
    kafka.create_topic(topic)
    kafka.produce(topic, 0, records[:3])
    load(spark, topic, tmp_path, bootstrap_servers=servers, transform=lambda rows: rows.where("offset < 0"))
    kafka.produce(topic, 0, records[3:6])
    load(spark, topic, tmp_path, bootstrap_servers=servers, transform=lambda rows: rows.where("false"))
    assert [(run.rows, run.source_rows) for run in runs(tmp_path)] == [(0, 3), (0, 3)]
    kafka.produce(topic, 0, records[6:])
    load(spark, topic, tmp_path, bootstrap_servers=servers)
    assert offsets(read(spark, tmp_path)) == [6, 7, 8]


def test_errors_name_what_is_wrong(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic)
    with pytest.raises(Exception, match="unknown option 'subscribee'; did you mean 'subscribe'"):
        frame(spark, kafka, subscribee=topic).collect()
    with pytest.raises(Exception, match=f"{topic}-0 ends at offset 0, before 7"):
        frame(spark, kafka, subscribe=topic, endingOffsets=f'{{"{topic}":{{"0":7}}}}').collect()


def test_a_stream_reads_each_record_once(spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path) -> None:
    """In two runs, the second with new records and a new partition; with limits where Spark has them."""
    kafka.create_topic(topic)
    kafka.produce(topic, 0, some_records(10))

    def run() -> None:
        options = kafka.options(subscribe=topic, startingOffsets="earliest")
        rows = spark.readStream.format("aiokproto").options(**options).load()
        stream = rows.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = stream.trigger(availableNow=True).start(str(tmp_path / "out"))
        try:
            assert query.awaitTermination(4 * int(LONG_TIMEOUT))
        finally:
            query.stop()

    run()
    kafka.add_partitions(topic, 2)
    kafka.produce(topic, 1, some_records(5))
    run()
    found = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted((row["partition"], row["offset"]) for row in found) == [
        *((0, offset) for offset in range(10)),
        *((1, offset) for offset in range(5)),
    ]
