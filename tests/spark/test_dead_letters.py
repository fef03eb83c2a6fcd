"""Malformed records that a task writes to another topic, without Spark."""

from __future__ import annotations

from typing import Any

import pytest

from aiokproto.consumer import Consumer
from aiokproto.errors import ConfigurationError, KafkaError
from aiokproto.records import BatchRecord
from aiokproto.spark.options import parse_read_options
from aiokproto.spark.planning import plan_now
from aiokproto.spark.reading import read_range
from aiokproto.spark.worker import Worker
from aiokproto.types import Record
from tests.spark.kafka import Kafka

JSON = {"value.format": "json", "value.schema": "a INT"}
HEADERS = (("h", b"1"), ("__dlq.errors.topic", b"older"))


@pytest.fixture
def filled(kafka: Kafka, topic: str) -> str:
    """A topic with good records and bad ones, and an empty one for letters."""
    kafka.create_topic(topic, 2)
    kafka.create_topic(f"{topic}.dead")
    values = [b'{"a":1}', b"nope", None, b'{"a":"x"}', b'{"a":2}']
    kafka.produce(topic, 1, [BatchRecord(at, 1000 + at, b"%d" % at, value, HEADERS) for at, value in enumerate(values)])
    return topic


def read(kafka: Kafka, worker: Worker, topic: str, **options: str) -> list[dict[str, Any]]:
    given = kafka.read_options(subscribe=topic, **{**JSON, "deadLetterTopic": f"{topic}.dead", **options})
    ranges = [one for one in plan_now(given).ranges if one.size]
    return [row for one in ranges for batch in read_range(worker, one, given) for row in batch.to_pylist()]


def letters_of(kafka: Kafka, topic: str) -> list[Record[bytes, bytes]]:
    async def found() -> list[Record[bytes, bytes]]:
        dead = Consumer(f"{topic}.dead", bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest")
        async with dead:
            return [record async for record in dead.read_to_end()]

    return kafka.run(found())


@pytest.mark.parametrize(("mode", "rows"), [("permissive", 5), ("dropmalformed", 3)])
@pytest.mark.parametrize("columns", ["value", "key,value,topic,partition,offset"])
def test_malformed_records_are_written_as_they_were_stored(
    kafka: Kafka, worker: Worker, filled: str, mode: str, rows: int, columns: str
) -> None:
    assert len(read(kafka, worker, filled, columns=columns, **{"value.mode": mode})) == rows
    letters = letters_of(kafka, filled)
    assert [(letter.key, letter.value) for letter in letters] == [(b"1", b"nope"), (b"3", b'{"a":"x"}')]
    for letter, offset in zip(letters, (b"1", b"3"), strict=True):
        assert letter.headers == (
            ("h", b"1"),
            ("__dlq.errors.topic", filled.encode()),
            ("__dlq.errors.partition", b"1"),
            ("__dlq.errors.offset", offset),
            ("__dlq.errors.timestamp", b"100" + offset),
            ("__dlq.errors.exception.class", b"aiokproto.spark.payloads.columns.PayloadError"),
            ("__dlq.errors.message", b"the value is malformed: it is no JSON of the schema"),
        )


def test_a_record_with_a_malformed_key_and_value_is_one_letter(kafka: Kafka, worker: Worker, filled: str) -> None:
    read(kafka, worker, filled, **{"key.format": "json", "key.schema": "b INT"})
    letters = letters_of(kafka, filled)
    assert [letter.key for letter in letters] == [b"%d" % at for at in range(5)]
    assert dict(letters[1].headers)["__dlq.errors.message"] == (
        b"the key is malformed: it is no JSON of the schema; the value is malformed: it is no JSON of the schema"
    )


def test_only_records_of_the_range_are_written(kafka: Kafka, worker: Worker, filled: str) -> None:
    read(kafka, worker, filled, startingOffsets=f'{{"{filled}":{{"0":0,"1":2}}}}')
    assert [letter.value for letter in letters_of(kafka, filled)] == [b'{"a":"x"}']


@pytest.mark.parametrize("size", [2_000_000, pytest.param(33 << 20, marks=pytest.mark.extended)])
def test_a_letter_is_as_large_as_its_record(kafka: Kafka, worker: Worker, topic: str, size: int) -> None:
    """Also if it exceeds what a producer takes by default: a request of 1 MiB, or a buffer of 32 MiB."""
    for name in (topic, f"{topic}.dead"):
        kafka.create_topic(name, config={"max.message.bytes": "40000000"})
    kafka.produce(topic, 0, [BatchRecord(0, 1000, None, b"n" * size, ())])
    read(kafka, worker, topic)
    assert [letter.value == b"n" * size for letter in letters_of(kafka, topic)] == [True]


def test_a_letter_that_cannot_be_written_fails_the_task(kafka: Kafka, worker: Worker, filled: str) -> None:
    kafka.create_topic(f"{filled}.small", config={"max.message.bytes": "100"})
    with pytest.raises(KafkaError, match=rf"dead letter of {filled}-1@1 cannot be written to topic '{filled}\.small'"):
        read(kafka, worker, filled, deadLetterTopic=f"{filled}.small")
    # The next task has a producer again.
    read(kafka, worker, filled)
    assert len(letters_of(kafka, filled)) == 2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"subscribe": "t,t.dead", **JSON}, "deadLetterTopic=t.dead is read, too"),
        ({"subscribePattern": "^t", **JSON}, "deadLetterTopic=t.dead is read, too"),
        ({"assign": '{"t.dead":[0]}', **JSON}, "deadLetterTopic=t.dead is read, too"),
        ({"subscribe": "t"}, "deadLetterTopic has no effect"),
        ({"subscribe": "t", **JSON, "value.mode": "failfast"}, "deadLetterTopic has no effect"),
        ({"subscribe": "t", **JSON, "columns": "offset"}, "deadLetterTopic has no effect"),
        ({"subscribe": "t", **JSON, "deadLetterTopic": "a/b"}, "deadLetterTopic='a/b'"),
    ],
)
def test_options_of_dead_letters_that_make_no_sense_are_refused(options: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_read_options({"kafka.bootstrap.servers": "h:1", "deadLetterTopic": "t.dead", **options})
    assert text in str(caught.value)
