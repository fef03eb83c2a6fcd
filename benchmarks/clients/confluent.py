"""confluent-kafka: librdkafka, a C library with threads of its own, whose CPU time counts too."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import confluent_kafka

from benchmarks.clients import Run
from benchmarks.work import Kind, Settings, Work

SERVE_EVERY = 100
"""Sends between two calls of `poll`, which serves delivery reports."""
CONSUME_AT_ONCE = 1000
QUEUE_BACKOFF_MS = 10
TIMEOUT = 30.0


def _producer(work: Work, kind: Kind) -> Any:
    return confluent_kafka.Producer(
        {
            "bootstrap.servers": work.bootstrap,
            "acks": "all",
            "linger.ms": work.linger_ms(kind),
            "batch.size": work.settings.batch_bytes,
            "compression.type": "none",
            "max.in.flight.requests.per.connection": work.settings.in_flight,
        }
    )


class _Reports:
    """Counts deliveries; the first failure ends the measurement."""

    def __init__(self) -> None:
        self.delivered = 0

    def __call__(self, error: Any, _: Any) -> None:
        if error is not None:
            raise confluent_kafka.KafkaException(error)
        self.delivered += 1


def _connected(work: Work, kind: Kind) -> Any:
    producer = _producer(work, kind)
    producer.produce(work.topic, work.value, on_delivery=_Reports())
    if producer.flush(TIMEOUT):
        raise TimeoutError(f"no delivery in {TIMEOUT:g} s")
    return producer


def _produce(work: Work) -> None:
    producer, reports = _connected(work, "produce"), _Reports()
    topic, value, produce, poll = work.topic, work.value, producer.produce, producer.poll
    with work.meter:
        for index in range(work.messages):
            while True:
                try:
                    produce(topic, value, on_delivery=reports)
                    break
                except BufferError:
                    poll(0.1)
            if not index % SERVE_EVERY:
                poll(0)
        producer.flush(TIMEOUT)
    work.settled += reports.delivered


def _produce_and_wait(work: Work) -> None:
    producer, reports = _connected(work, "latency"), _Reports()
    with work.meter:
        for index in range(work.messages):
            started = time.perf_counter()
            producer.produce(work.topic, work.value, on_delivery=reports)
            while reports.delivered <= index:
                producer.poll(TIMEOUT)
            work.latencies.append(time.perf_counter() - started)
    work.settled += reports.delivered


def _consumer(work: Work) -> Any:
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": work.bootstrap,
            # Asked for by the library, and not used: partitions are assigned and nothing is committed.
            "group.id": "benchmarks",
            "enable.auto.commit": False,
            "fetch.max.bytes": work.settings.fetch_max_bytes,
            "max.partition.fetch.bytes": work.settings.partition_fetch_bytes,
            "check.crcs": True,
            # By default it pauses for a second when it has fetched ahead far enough, and a fast reader waits for it.
            "fetch.queue.backoff.ms": QUEUE_BACKOFF_MS,
        }
    )
    consumer.list_topics(work.topic, TIMEOUT)
    return consumer


def _assign(consumer: Any, work: Work) -> None:
    beginning = confluent_kafka.OFFSET_BEGINNING
    partitions = range(work.settings.partitions)
    consumer.assign([confluent_kafka.TopicPartition(work.topic, index, beginning) for index in partitions])


def _reading(read: Callable[[Any, Work], int]) -> Run:
    """A `Run` around a loop that reads all messages and returns the sum of their sizes."""

    def run(work: Work) -> None:
        consumer = _consumer(work)
        try:
            with work.meter:
                _assign(consumer, work)
                size = read(consumer, work)
            work.read(work.messages, size)
        finally:
            consumer.close()

    return run


def _poll(consumer: Any, work: Work) -> int:
    count = size = 0
    poll = consumer.poll
    while count < work.messages:
        message = poll(1.0)
        if message is not None:
            size += len(_checked(message).value())
            count += 1
    return size


def _consume(consumer: Any, work: Work) -> int:
    count = size = 0
    while count < work.messages:
        messages = consumer.consume(min(CONSUME_AT_ONCE, work.messages - count), 1.0)
        for message in messages:
            size += len(_checked(message).value())
        count += len(messages)
    return size


def _checked(message: Any) -> Any:
    if message.error() is not None:
        raise confluent_kafka.KafkaException(message.error())
    return message


class ConfluentClient:
    def version(self) -> str:
        return f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"

    def stated(self, settings: Settings) -> Mapping[str, str]:
        return {
            "idempotence": "off (default)",
            "in flight": str(settings.in_flight),
            "checks CRCs": "yes (set; default no)",
            "fetch.queue.backoff.ms": f"{QUEUE_BACKOFF_MS} (set; default 1000)",
            "poll(0)": f"every {SERVE_EVERY} sends",
        }

    def ways(self, kind: Kind) -> Mapping[str, Run]:
        ways: dict[Kind, dict[str, Run]] = {
            "produce": {"produce(), poll(), flush()": _produce},
            "latency": {"produce(), poll()": _produce_and_wait},
            "consume": {"poll()": _reading(_poll), f"consume({CONSUME_AT_ONCE})": _reading(_consume)},
        }
        return ways[kind]


CLIENT = ConfluentClient()
