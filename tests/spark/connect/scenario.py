"""Tests that only clients of Spark Connect need, on the server that ``test_connect`` has started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aiokproto.broker import Broker, Security, ThreadedCluster
from aiokproto.spark import StorageError, load, read, register, rerun
from tests.spark.kafka import Kafka
from tests.spark.session import CONNECT
from tests.spark.test_reading import some_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PASSWORD = "CLIENT_PASSWORD"
"""The environment variable with a password that brokers expect."""
SERVER_PASSWORD = "SERVER_PASSWORD"
"""The environment variable that the server's processes have it in."""

LITERAL = "a-literal-password"


def frame(spark: SparkSession, options: dict[str, str]) -> DataFrame:
    return spark.read.format("aiokproto").options(**options).load()


def write(spark: SparkSession, options: dict[str, str]) -> None:
    rows = spark.range(20).selectExpr("cast(id AS string) AS value")
    rows.write.format("aiokproto").options(**options).mode("append").save()


def offsets(rows: DataFrame) -> list[int]:
    return sorted(row["offset"] for row in rows.collect())


@pytest.fixture
def secured(topic: str) -> Iterator[ThreadedCluster]:
    security = Security("SASL_PLAINTEXT", users={"etl": os.environ[PASSWORD]})
    with ThreadedCluster(Broker(security=security)) as running:
        running.create_topic(topic, partitions=2)
        yield running


def secured_options(cluster: ThreadedCluster, topic: str, password: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "SCRAM-SHA-256",
        "kafka.sasl.username": "etl",
        "kafka.sasl.password": password,
        "subscribe": topic,
        "topic": topic,
    }


def test_sessions_use_spark_connect(spark: SparkSession) -> None:
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    assert isinstance(spark, ConnectSession)


def test_it_is_found_and_can_be_registered(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    """A client that only reads and writes needs no more than Spark; on the server the package is installed."""
    kafka.create_topic(topic)
    kafka.produce(topic, 0, some_records(3))
    session = type(spark).builder.remote(os.environ[CONNECT]).create()
    try:
        for _ in range(2):
            assert offsets(frame(session, kafka.options(subscribe=topic))) == [0, 1, 2]
            register(session)
    finally:
        session.stop()


def test_filters_are_pushed_down(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic)
    kafka.produce(topic, 0, some_records(90))
    register(spark, pushdown=True)

    def tasks(pushdown: str) -> list[int]:
        options = kafka.options(subscribe=topic, maxRecordsPerPartition="10", filterPushdown=pushdown)
        rows = frame(spark, options).where("offset >= 80").selectExpr("spark_partition_id() AS task")
        assert rows.count() == 10
        return [row["task"] for row in rows.distinct().collect()]

    # These are the offsets of the last of nine tasks.
    assert tasks("true") == [0]
    assert tasks("false") == [8]


def test_loads_with_a_client_that_plans_and_commits(
    spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    """The server's tasks write the files."""
    servers = kafka.bootstrap_servers
    kafka.create_topic(topic, 2)
    kafka.produce(topic, 1, some_records(10))
    first = load(spark, topic, tmp_path, bootstrap_servers=servers, partition_by={"half": "offset div 5"})
    assert sorted(path.parent.name for path in tmp_path.glob("run=*/*/*.parquet")) == ["by_half=0", "by_half=1"]
    assert first.run_id is not None
    kafka.produce(topic, 0, some_records(5))
    assert load(spark, topic, tmp_path, bootstrap_servers=servers).rows == 5
    again = rerun(
        spark, tmp_path, first.run_id, bootstrap_servers=servers, transform=lambda rows: rows.where("offset < 4")
    )
    assert again.rows == 4
    assert offsets(read(spark, tmp_path)) == sorted([*range(4), *range(5)])


def test_outputs_on_hdfs_are_refused(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic)
    with pytest.raises(StorageError, match="not a session of Spark Connect"):
        load(spark, topic, "hdfs://127.0.0.1:1/out", bootstrap_servers=kafka.bootstrap_servers)


def test_the_servers_processes_resolve_references(
    spark: SparkSession, secured: ThreadedCluster, topic: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert SERVER_PASSWORD not in os.environ
    options = secured_options(secured, topic, f"${{env:{SERVER_PASSWORD}}}")
    write(spark, options)
    assert frame(spark, options).count() == 20
    frame(spark, options).explain(mode="extended")
    shown = capfd.readouterr().out
    assert "aiokproto" in shown
    assert os.environ[PASSWORD] not in shown


def test_errors_name_what_is_wrong(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    """The error comes when a query runs, because ``load()`` asks the server for nothing."""
    kafka.create_topic(topic)
    misspelt = frame(spark, kafka.options(subscribee=topic))
    with pytest.raises(Exception, match="unknown option 'subscribee'; did you mean 'subscribe'"):
        misspelt.collect()
    with pytest.raises(Exception, match="the column topic is required, or the option topic"):
        spark.range(1).selectExpr("'x' AS value").write.format("aiokproto").options(**kafka.options()).mode(
            "append"
        ).save()


def test_a_literal_password_is_in_no_plan_and_no_error(
    spark: SparkSession, secured: ThreadedCluster, topic: str, capfd: pytest.CaptureFixture[str]
) -> None:
    rows = frame(spark, secured_options(secured, topic, LITERAL))
    rows.explain(mode="extended")
    with pytest.raises(Exception, match="AuthenticationError") as caught:
        rows.collect()
    printed = capfd.readouterr()
    assert LITERAL not in f"{caught.value}{printed.out}{printed.err}"
