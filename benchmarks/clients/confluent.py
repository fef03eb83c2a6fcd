"""confluent-kafka: librdkafka, a C library with threads of its own, whose CPU time counts too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import confluent_kafka

from benchmarks.clients import Run, Stated, librdkafka
from benchmarks.clients.librdkafka import CONSUME_AT_ONCE, TIMEOUT
from benchmarks.loops import Asyncio
from benchmarks.work import Kind, Settings, Work

SERVE_EVERY = 100
"""Sends between two calls of `poll`, which serves delivery reports."""


class _Reports:
    """Counts deliveries; the first failure ends the measurement."""

    def __init__(self) -> None:
        self.delivered = 0

    def __call__(self, error: Any, _: Any) -> None:
        if error is not None:
            raise confluent_kafka.KafkaException(error)
        self.delivered += 1


def _producer(work: Work, linger_ms: int) -> Any:
    return confluent_kafka.Producer(librdkafka.producer_options(work, linger_ms))


def _flush(producer: Any) -> None:
    if producer.flush(TIMEOUT):
        raise TimeoutError(f"no delivery in {TIMEOUT:g} s")


def _connected(work: Work, linger_ms: int) -> Any:
    producer = _producer(work, linger_ms)
    producer.produce(work.topic, work.value(), on_delivery=_Reports())
    _flush(producer)
    work.connecting += 1
    return producer


def _produce(work: Work) -> None:
    producer, reports = _connected(work, work.settings.linger_ms), _Reports()
    topic, produce, poll = work.topic, producer.produce, producer.poll
    with work.meter:
        for index, value in enumerate(work.values(work.messages)):
            while True:
                try:
                    produce(topic, value, on_delivery=reports)
                    break
                except BufferError:
                    poll(0.1)
            if not index % SERVE_EVERY:
                poll(0)
        _flush(producer)
    work.settled += reports.delivered


def _produce_and_wait(work: Work) -> None:
    producer, reports = _connected(work, linger_ms=0), _Reports()
    with work.meter:
        for index, value in enumerate(work.values(work.messages)):
            started = time.perf_counter()
            producer.produce(work.topic, value, on_delivery=reports)
            while reports.delivered <= index:
                producer.poll(TIMEOUT)
            work.latencies.append(time.perf_counter() - started)
    work.settled += reports.delivered


def _transact(work: Work) -> None:
    options = {**librdkafka.producer_options(work, work.settings.linger_ms), "transactional.id": work.transactional_id}
    producer, reports = confluent_kafka.Producer(options), _Reports()
    producer.init_transactions(TIMEOUT)

    def transact(values: Iterable[bytes]) -> None:
        producer.begin_transaction()
        for value in values:
            producer.produce(work.topic, value, on_delivery=reports)
        producer.commit_transaction(TIMEOUT)

    transact([work.value()])
    work.connecting += 1
    with work.meter:
        for values in work.transactions():
            started = time.perf_counter()
            transact(values)
            work.latencies.append(time.perf_counter() - started)
    work.settled += reports.delivered - 1


def _start(work: Work) -> None:
    reports = _Reports()
    with work.meter:
        producer = _producer(work, linger_ms=0)
        producer.produce(work.topic, work.value(), on_delivery=reports)
        _flush(producer)
    work.settled += reports.delivered


def _reading(read: Callable[[Any, Work], int]) -> Run:
    """A `Run` around a loop that reads all messages and returns the sum of their sizes."""

    def run(work: Work) -> None:
        consumer = confluent_kafka.Consumer(librdkafka.consumer_options(work))
        consumer.list_topics(work.topic, TIMEOUT)
        try:
            with work.meter:
                consumer.assign(librdkafka.assignment(work.topic, work.settings))
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
            size += len(librdkafka.value(message))
            count += 1
    return size


def _consume(consumer: Any, work: Work) -> int:
    count = size = 0
    while count < work.messages:
        messages = consumer.consume(min(CONSUME_AT_ONCE, work.messages - count), 1.0)
        for message in messages:
            size += len(librdkafka.value(message))
        count += len(messages)
    return size


class ConfluentClient:
    asyncio: Asyncio | None = None

    def version(self) -> str:
        return librdkafka.version()

    def stated(self, settings: Settings) -> Stated:
        return Stated(
            works_in="threads of its own, in C", notes=[*librdkafka.NOTES, f"poll(0) every {SERVE_EVERY} sends"]
        )

    def ways(self, kind: Kind) -> Mapping[str, Run]:
        ways: dict[Kind, dict[str, Run]] = {
            "produce": {"produce(), poll(), flush()": _produce},
            "latency": {"produce(), poll()": _produce_and_wait},
            "transact": {"produce(), commit_transaction()": _transact},
            "consume": {"poll()": _reading(_poll), f"consume({CONSUME_AT_ONCE})": _reading(_consume)},
            "start": {"produce(), flush()": _start},
        }
        return ways[kind]


CLIENT = ConfluentClient()
