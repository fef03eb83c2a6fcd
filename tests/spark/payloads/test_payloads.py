"""Typed columns in Spark: batches, streams, writes and loads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aiokproto.records import BatchRecord
from aiokproto.spark import load, read
from tests.spark.kafka import Kafka
from tests.spark.payloads.registry_server import SchemaRegistry
from tests.timeouts import LONG_TIMEOUT

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FIRST = {
    "type": "record",
    "name": "Flight",
    "fields": [{"name": "carrier", "type": "string"}, {"name": "delay", "type": "int"}],
}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "tail", "type": ["null", "string"], "default": None}]}


@pytest.fixture(scope="module")
def registry() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


def rows_of(spark: SparkSession, kafka: Kafka, topic: str, **options: str) -> DataFrame:
    return spark.read.format("aiokproto").options(**kafka.options(subscribe=topic, **options)).load()


def shown(frame: DataFrame, column: str = "value") -> list[Any]:
    found = [row[0] for row in frame.orderBy("offset").select(column).collect()]
    return [None if one is None else one.asDict(recursive=True) if hasattr(one, "asDict") else one for one in found]


def test_json(spark: SparkSession, kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic)
    texts = [b'{"a":1,"t":"2020-01-02T03:04:05Z"}', None, b"nope", b'{"a":"x"}']
    kafka.produce(topic, 0, [BatchRecord(number, 1000, b"k", text) for number, text in enumerate(texts)])
    json = {"value.format": "json", "value.schema": "a INT, t TIMESTAMP, _corrupt_record STRING"}
    frame = rows_of(spark, kafka, topic, **json)
    assert frame.schema["value"].dataType.simpleString() == "struct<a:int,t:timestamp,_corrupt_record:string>"
    assert frame.where("value.a = 1 AND value.t = timestamp'2020-01-02 03:04:05Z'").count() == 1
    assert [value and value["_corrupt_record"] for value in shown(frame)] == [None, None, "nope", '{"a":"x"}']
    assert len(shown(rows_of(spark, kafka, topic, **json, **{"value.mode": "dropmalformed"}))) == 2
    with pytest.raises(Exception, match=f"PayloadError: {topic}-0 offset 2: the value is malformed: it is no JSON"):
        rows_of(spark, kafka, topic, **json, **{"value.mode": "failfast"}).collect()
    assert rows_of(spark, kafka, topic, **json, columns="offset").count() == 4


@pytest.mark.extended
def test_malformed_records_of_batches_streams_and_loads_become_dead_letters(
    spark: SparkSession, kafka: Kafka, topic: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic)
    kafka.produce(topic, 0, [BatchRecord(at, 1000, None, text) for at, text in enumerate([b'{"a":1}', b"nope"])])

    def options(use: str) -> dict[str, str]:
        kafka.create_topic(f"{topic}-{use}")
        json = {"value.format": "json", "value.schema": "a INT", "value.mode": "dropmalformed"}
        return {**json, "deadLetterTopic": f"{topic}-{use}"}

    assert shown(rows_of(spark, kafka, topic, **options("batch"))) == [{"a": 1}]
    query = (
        spark.readStream.format("aiokproto")
        .options(**kafka.options(subscribe=topic, startingOffsets="earliest", **options("stream")))
        .load()
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "stream"))
    )
    assert query.awaitTermination(int(4 * LONG_TIMEOUT))
    load(spark, topic, tmp_path / "out", bootstrap_servers=kafka.bootstrap_servers, options=options("load"))
    for use in ("batch", "stream", "load"):
        assert {bytes(value) for value in shown(rows_of(spark, kafka, f"{topic}-{use}"))} == {b"nope"}


def test_avro_is_written_read_streamed_and_loaded(
    spark: SparkSession, kafka: Kafka, topic: str, registry: SchemaRegistry, tmp_path: Path
) -> None:
    kafka.create_topic(topic)
    avro = {"value.format": "avro", "schema.registry.url": registry.url}
    registry.register(f"{topic}-value", FIRST)
    one = spark.range(3).selectExpr("named_struct('delay', cast(id AS int), 'carrier', 'UA') AS value")
    one.coalesce(1).write.format("aiokproto").options(**kafka.options(topic=topic, **avro)).mode("append").save()
    planned = rows_of(spark, kafka, topic, **avro)
    registry.register(f"{topic}-value", SECOND)
    two = spark.sql("SELECT named_struct('carrier', 'LH', 'delay', 7, 'tail', 'D-AIMA') AS value")
    two.write.format("aiokproto").options(**kafka.options(topic=topic, **avro)).mode("append").save()

    first = [{"carrier": "UA", "delay": number, "tail": None} for number in range(3)]
    expected = [*first, {"carrier": "LH", "delay": 7, "tail": "D-AIMA"}]
    assert shown(rows_of(spark, kafka, topic, **avro)) == expected
    # The schema stays the one from when the table was made, even for records that were written with a later one.
    assert [list(value) for value in shown(planned)] == [["carrier", "delay"]] * 4

    query = (
        spark.readStream.format("aiokproto")
        .options(**kafka.options(subscribe=topic, startingOffsets="earliest", **avro))
        .load()
        .writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start(str(tmp_path / "stream"))
    )
    assert query.awaitTermination(int(4 * LONG_TIMEOUT))
    assert shown(spark.read.parquet(str(tmp_path / "stream"))) == expected

    load(spark, topic, tmp_path / "out", bootstrap_servers=kafka.bootstrap_servers, options=avro)
    assert shown(read(spark, tmp_path / "out")) == expected


@pytest.mark.extended
def test_a_stream_of_json_is_written_as_avro(
    spark: SparkSession, kafka: Kafka, topic: str, registry: SchemaRegistry, tmp_path: Path
) -> None:
    kafka.create_topic(topic)
    kafka.create_topic(f"{topic}-avro")
    kafka.produce(topic, 0, [BatchRecord(0, 1000, None, b'{"carrier":"UA","delay":5}')])
    registry.register("flights", FIRST)
    json = {"value.format": "json", "value.schema": "carrier STRING, delay INT", "startingOffsets": "earliest"}
    avro = {"value.format": "avro", "schema.registry.url": registry.url, "value.subject": "flights"}
    query = (
        spark.readStream.format("aiokproto")
        .options(**kafka.options(subscribe=topic, **json))
        .load()
        .select("value")
        .writeStream.format("aiokproto")
        .options(**kafka.options(topic=f"{topic}-avro", **avro), checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(int(4 * LONG_TIMEOUT))
    assert shown(rows_of(spark, kafka, f"{topic}-avro", **avro)) == [{"carrier": "UA", "delay": 5}]


def test_errors_name_the_option_or_the_row(
    spark: SparkSession, kafka: Kafka, topic: str, registry: SchemaRegistry
) -> None:
    kafka.create_topic(topic)
    avro = {"value.format": "avro", "schema.registry.url": registry.url}
    with pytest.raises(Exception, match=f"UnknownSchemaError: .*Subject '{topic}-value' not found"):
        rows_of(spark, kafka, topic, **avro)
    with pytest.raises(Exception, match=r"ConfigurationError: value\.schema is required for format json"):
        rows_of(spark, kafka, topic, **{"value.format": "json"})
    number = registry.register(f"{topic}-value", FIRST)
    frame = spark.sql("SELECT named_struct('carrier', 'LH', 'delay', cast(null AS int)) AS value")
    with pytest.raises(Exception, match="WriteError: task 0: row 0: the value cannot be written as avro"):
        frame.write.format("aiokproto").options(**kafka.options(topic=topic, **avro)).mode("append").save()
    with pytest.raises(Exception, match=r"cast it to binary or string, or set the option value\.format"):
        frame.write.format("aiokproto").options(**kafka.options(topic=topic)).mode("append").save()
    kafka.produce(
        topic,
        0,
        [
            BatchRecord(0, 1000, None, b"\0\0\0\x03\xe8\0"),
            BatchRecord(1, 1000, None, b"\0\0\0\0" + bytes([number]) + b"\4UA\2"),
        ],
    )
    with pytest.raises(
        Exception, match=f"PayloadError: {topic}-0 offset 0: the value is malformed: schema 1000 is unknown"
    ):
        rows_of(spark, kafka, topic, **avro).collect()
    permissive = rows_of(spark, kafka, topic, **avro, **{"value.mode": "permissive"})
    assert shown(permissive) == [None, {"carrier": "UA", "delay": 1}]
