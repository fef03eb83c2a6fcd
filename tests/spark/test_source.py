"""The data source in Spark."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from aiokproto.records import BatchRecord, encode
from tests.spark.kafka import Kafka
from tests.spark.test_reading import CODECS, some_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

pytestmark = pytest.mark.spark


@pytest.fixture
def load(spark: SparkSession, kafka: Kafka) -> Any:
    def frame(**options: str) -> DataFrame:
        return spark.read.format("aiokproto").options(**kafka.options(**options)).load()

    return frame


def as_rows(topic: str, partition: int, records: list[BatchRecord]) -> list[tuple[Any, ...]]:
    return [
        (
            one.key,
            one.value,
            topic,
            partition,
            one.offset,
            EPOCH + timedelta(milliseconds=one.timestamp),
            0,
            list(one.headers) or None,
        )
        for one in records
    ]


def collected(frame: DataFrame) -> list[tuple[Any, ...]]:
    def plain(row: Row) -> tuple[Any, ...]:
        key, value, *others, timestamp, kind, headers = row
        moment = timestamp.astimezone(timezone.utc)
        pairs = None if headers is None else [(one["key"], _bytes(one["value"])) for one in headers]
        return (_bytes(key), _bytes(value), *others, moment, kind, pairs)

    return [plain(row) for row in frame.orderBy("topic", "partition", "offset").collect()]


def _bytes(value: bytes | bytearray | None) -> bytes | None:
    return None if value is None else bytes(value)


def fill(kafka: Kafka, topic: str) -> list[tuple[Any, ...]]:
    """Create a topic of three partitions, one of them empty, with batches in every codec; its rows."""
    kafka.create_topic(topic, 3)
    written = some_records(100)
    for number, codec in enumerate(CODECS):
        kafka.produce(topic, 0, written[20 * number : 20 * number + 20], codec)
    kafka.produce(topic, 2, written[:7])
    return as_rows(topic, 0, written) + as_rows(topic, 2, written[:7])


def test_every_row_is_what_was_produced(kafka: Kafka, load: Any, topic: str) -> None:
    """Nulls, empty values, headers, timestamps, offsets; three partitions, one of them empty; every codec."""
    expected = fill(kafka, topic)
    frame = load(subscribe=topic, includeHeaders="true")
    assert collected(frame) == expected


def test_the_schema_equals_the_one_of_sparks_own_source(kafka: Kafka, load: Any, topic: str) -> None:
    kafka.create_topic(topic)
    plain = (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int"
    )
    assert load(subscribe=topic).schema.simpleString() == f"{plain}>"
    with_headers = load(subscribe=topic, includeHeaders="true").schema
    assert with_headers.simpleString() == f"{plain},headers:array<struct<key:string,value:binary>>>"
    assert all(field.nullable for field in with_headers)


def test_an_empty_topic_has_no_rows(kafka: Kafka, load: Any, topic: str) -> None:
    """Spark makes up a partition where a source has none, and it must not become a row."""
    kafka.create_topic(topic, 2)
    assert load(subscribe=topic).collect() == []


def test_a_range_cut_for_many_tasks(kafka: Kafka, load: Any, topic: str) -> None:
    kafka.create_topic(topic)
    for start in range(0, 100, 10):
        kafka.produce(topic, 0, some_records(10, start))
    frame = load(
        subscribe=topic,
        includeHeaders="true",
        minPartitions="4",
        startingOffsets=f'{{"{topic}":{{"0":5}}}}',
        endingOffsets=f'{{"{topic}":{{"0":95}}}}',
    )
    assert frame.rdd.getNumPartitions() == 4
    assert collected(frame) == as_rows(topic, 0, some_records(90, 5))
    assert load(subscribe=topic, maxRecordsPerPartition="30").rdd.getNumPartitions() == 4


def test_log_append_time(kafka: Kafka, load: Any, topic: str) -> None:
    kafka.create_topic(topic, config={"message.timestamp.type": "LogAppendTime"})
    kafka.append(topic, 0, encode(some_records(2)))
    assert [row["timestampType"] for row in load(subscribe=topic).collect()] == [1, 1]


def test_fewer_columns(kafka: Kafka, load: Any, spark: SparkSession, topic: str) -> None:
    kafka.create_topic(topic)
    kafka.produce(topic, 0, some_records(3))
    assert [tuple(row) for row in load(subscribe=topic, columns="offset,topic").collect()] == [
        (0, topic),
        (1, topic),
        (2, topic),
    ]
    given = spark.read.format("aiokproto").options(**kafka.options(subscribe=topic)).schema("offset bigint").load()
    assert [row["offset"] for row in given.collect()] == [0, 1, 2]


def test_limit_and_sql(kafka: Kafka, load: Any, spark: SparkSession, topic: str) -> None:
    kafka.create_topic(topic)
    for start in range(0, 30, 10):
        kafka.produce(topic, 0, some_records(10, start))
    assert len(load(subscribe=topic, **{"kafka.max.partition.fetch.bytes": "1"}).limit(3).collect()) == 3
    options = ", ".join(f"`{name}` '{value}'" for name, value in kafka.options(subscribe=topic).items())
    spark.sql(f"CREATE TEMPORARY VIEW flights USING aiokproto OPTIONS ({options})")
    try:
        assert spark.sql("SELECT max(offset) FROM flights").collect()[0][0] == 29
    finally:
        spark.catalog.dropTempView("flights")


def failure(frame_of: Any, **options: str) -> str:
    with pytest.raises(Exception) as caught:
        frame_of(**options).collect()
    return str(caught.value)


@pytest.mark.extended
def test_errors_say_what_is_wrong(kafka: Kafka, load: Any, topic: str) -> None:
    kafka.create_topic(topic)
    kafka.produce(topic, 0, some_records(3))
    assert "unknown option 'subscribee'; did you mean 'subscribe'?" in failure(load, subscribee=topic)
    assert "topic 'nothing-here'" in failure(load, subscribe="nothing-here")
    beyond = f'{{"{topic}":{{"0":7}}}}'
    assert f"{topic}-0 ends at offset 3, before 7" in failure(load, subscribe=topic, endingOffsets=beyond)
    kafka.delete_records(topic, 0, 2)
    begin = f'{{"{topic}":{{"0":0}}}}'
    lost = failure(load, subscribe=topic, startingOffsets=begin)
    assert f"{topic}-0 begins at offset 2: 2 offsets from 0 on were deleted" in lost


def test_a_schema_of_other_types_is_refused(kafka: Kafka, spark: SparkSession, topic: str) -> None:
    kafka.create_topic(topic)
    reader = spark.read.format("aiokproto").options(**kafka.options(subscribe=topic)).schema("value string")
    assert "schema: value string is not a column; valid are key binary, value binary" in failure(reader.load)
