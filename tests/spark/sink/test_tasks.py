"""What a task writes, without Spark: on the embedded broker."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import Any

import pyarrow as pa
import pytest

from aiokproto.errors import KafkaError
from aiokproto.observe.health import Health
from aiokproto.producer import Producer, murmur2
from aiokproto.spark.planning import plan_now
from aiokproto.spark.reading import read_range
from aiokproto.spark.sink import tasks
from aiokproto.spark.sink.options import WriteOptions, parse_write_options
from aiokproto.spark.sink.tasks import WriteError, write_rows
from aiokproto.spark.worker import MAX_KEPT, Worker
from tests.spark.kafka import Kafka


def write_options(kafka: Kafka, topic: str | None = None, **options: str) -> WriteOptions:
    named = {} if topic is None else {"topic": topic}
    return parse_write_options(kafka.options(**named, **options))


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch(list(columns.values()), names=list(columns))


def stored(kafka: Kafka, worker: Worker, topic: str) -> list[dict[str, Any]]:
    options = kafka.read_options(subscribe=topic, includeHeaders="true")
    ranges = sorted(plan_now(options).ranges, key=lambda one: one.partition)
    return [row for one in ranges for table in read_range(worker, one, options) for row in table.to_pylist()]


def ended(worker: Worker, producer: Producer) -> bool:
    async def health() -> Health:
        return producer.health()

    return worker.start(health()).result().ended


def failure(worker: Worker, options: WriteOptions, *batches: pa.RecordBatch) -> str:
    with pytest.raises(WriteError) as caught:
        write_rows(worker, options, iter(batches))
    return str(caught.value)


def test_every_column_is_written(kafka: Kafka, worker: Worker, topic: str) -> None:
    kafka.create_topic(topic, 3)
    other = f"{topic}-other"
    kafka.create_topic(other)
    headers = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
    rows = batch(
        key=pa.array(["k", "é", None, ""]),
        value=pa.array([b"v", None, b"", b"x"]),
        headers=pa.array([[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None, [], None], headers),
        topic=pa.array([topic, topic, other, topic]),
        partition=pa.array([2, None, None, 0], pa.int32()),
        offset=pa.array([7, 7, 7, 7]),
    )
    assert write_rows(worker, write_options(kafka), iter([rows])) == (4, 5)
    found = stored(kafka, worker, topic)
    hashed = (murmur2("é".encode()) & 0x7FFFFFFF) % 3
    assert sorted((row["partition"], row["key"], row["value"]) for row in found) == sorted(
        [(2, b"k", b"v"), (hashed, "é".encode(), None), (0, b"", b"x")]
    )
    (with_headers,) = [row["headers"] for row in found if row["headers"]]
    assert with_headers == [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]
    assert [(row["key"], row["value"]) for row in stored(kafka, worker, other)] == [(None, b"")]


def test_rows_of_many_batches_stay_in_order_in_bounded_memory(kafka: Kafka, worker: Worker, topic: str) -> None:
    """The buffer has memory for a hundredth of them."""
    kafka.create_topic(topic, 2)
    options = write_options(kafka, topic, **{"kafka.buffer.memory": "60000", "kafka.batch.size": "10000"})

    def batches() -> Iterator[pa.RecordBatch]:
        for start in range(0, 60_000, 1000):
            numbers = range(start, start + 1000)
            values = pa.array([b"%0100d" % number for number in numbers])
            yield batch(value=values, partition=pa.array([number % 2 for number in numbers], pa.int32()))
            yield batch(value=pa.array([], pa.binary()), partition=pa.array([], pa.int32()))

    assert write_rows(worker, options, batches()) == (60_000, 6_000_000)
    found = [int(row["value"]) for row in stored(kafka, worker, topic)]
    assert found == [*range(0, 60_000, 2), *range(1, 60_000, 2)]


def test_outcomes_are_awaited_before_too_many_rows_are_without_one(
    kafka: Kafka, worker: Worker, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.create_topic(topic)
    monkeypatch.setattr(tasks, "MAX_UNACKNOWLEDGED", 0)
    options = write_options(kafka, topic, **{"kafka.linger.ms": "200"})
    seen = []

    def batches() -> Iterator[pa.RecordBatch]:
        for value in (b"1", b"2", b"3"):
            # One batch is read while the one before is written.
            seen.append([row["value"] for row in stored(kafka, worker, topic)])
            yield batch(value=pa.array([value]))

    assert write_rows(worker, options, batches()) == (3, 3)
    assert [found[:1] for found in seen] == [[], [], [b"1"]]
    assert [row["value"] for row in stored(kafka, worker, topic)] == [b"1", b"2", b"3"]


def test_a_task_stops_reading_soon_after_a_row_has_failed(kafka: Kafka, worker: Worker, topic: str) -> None:
    kafka.create_topic(topic)
    options = write_options(kafka, topic, **{"kafka.max.request.size": "1000"})
    with pytest.raises(WriteError, match=f"row 0, topic {topic}: "):
        write_rows(worker, options, repeat(batch(value=pa.array([b"y" * 2000]))))


def test_a_task_without_rows(kafka: Kafka, worker: Worker) -> None:
    assert write_rows(worker, write_options(kafka, "not-there"), iter([])) == (0, 0)


def test_a_row_that_cannot_be_written_is_named(kafka: Kafka, worker: Worker, topic: str) -> None:
    kafka.create_topic(topic, 2)
    options = write_options(kafka, topic, **{"kafka.max.request.size": "1000"})
    large = batch(value=pa.array([b"x", b"y" * 2000, b"z"]))
    text = failure(worker, options, batch(value=pa.array([b"a"] * 5)), large)
    assert text.startswith(f"row 6, topic {topic}: ")
    assert "max_request_size" in text
    wrong = batch(value=pa.array([b"x", b"y"]), partition=pa.array([1, 2], pa.int32()))
    assert f"row 1: partition 2 does not exist: topic {topic} has partitions 0 to 1" in failure(worker, options, wrong)
    nameless = batch(value=pa.array([b"x", b"y"]), topic=pa.array([topic, None]))
    assert failure(worker, write_options(kafka), nameless).startswith("row 1: the topic is null")


def test_a_batch_that_the_broker_rejects_fails_the_task(kafka: Kafka, worker: Worker, topic: str) -> None:
    kafka.create_topic(topic, config={"max.message.bytes": "500"})
    text = failure(worker, write_options(kafka, topic), batch(value=pa.array([b"x" * 100, b"y" * 900])))
    assert text.startswith(f"row 1, topic {topic}: ")
    assert f"{topic}-0" in text
    assert "MESSAGE_TOO_LARGE" in text


def test_tasks_share_a_producer_until_one_fails(kafka: Kafka, worker: Worker, topic: str) -> None:
    kafka.create_topic(topic, 2)
    options = write_options(kafka, topic)
    first = worker.producer(options.producer)
    write_rows(worker, options, iter([batch(value=pa.array([b"1"]))]))
    assert worker.producer(options.producer) is first

    def broken() -> Iterator[pa.RecordBatch]:
        yield batch(value=pa.array([b"2"]))
        raise RuntimeError("Spark's query fails")

    with pytest.raises(RuntimeError, match="Spark's query fails"):
        write_rows(worker, options, broken())
    assert ended(worker, first)
    second = worker.producer(options.producer)
    assert second is not first
    write_rows(worker, options, iter([batch(value=pa.array([b"3"]))]))
    assert {row["value"] for row in stored(kafka, worker, topic)} >= {b"1", b"3"}


def test_a_producer_that_has_ended_is_replaced(kafka: Kafka, worker: Worker) -> None:
    options = write_options(kafka, "t")
    first = worker.producer(options.producer)
    worker.start(first.close()).result()
    assert worker.producer(options.producer) is not first


def test_the_least_recently_used_producer_is_closed(kafka: Kafka, worker: Worker) -> None:
    each = [write_options(kafka, "t", **{"kafka.linger.ms": str(n)}).producer for n in range(MAX_KEPT + 1)]
    assert [ended(worker, producer) for producer in map(worker.producer, each)] == [False] * (MAX_KEPT + 1)
    first, *others = [worker.producer(options) for options in each[:2]]
    assert not ended(worker, first)
    assert len({id(one) for one in map(worker.producer, each[1:])} & {id(one) for one in others}) == 1
    assert ended(worker, first)


def test_a_cluster_that_is_not_there_is_an_error(worker: Worker) -> None:
    options = parse_write_options(
        {
            "kafka.bootstrap.servers": "127.0.0.1:1",
            "topic": "t",
            "kafka.default.api.timeout.ms": "100",
            "kafka.bootstrap.resolve.timeout.ms": "0",
        }
    )
    with pytest.raises(KafkaError, match=r"127\.0\.0\.1:1"):
        write_rows(worker, options, iter([batch(value=pa.array([b"1"]))]))
