"""kafka-python: pure Python, a thread beside the caller's."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any

import kafka
from kafka.structs import TopicPartition

from benchmarks.clients import Run, Stated
from benchmarks.loops import Asyncio
from benchmarks.work import CHUNK, Kind, Settings, Work

TIMEOUT = 60.0


def _producer(work: Work, linger_ms: int, transactional_id: str | None = None) -> Any:
    compression: Any = None if work.compression == "none" else work.compression
    return kafka.KafkaProducer(
        transactional_id=transactional_id,
        bootstrap_servers=work.bootstrap,
        **work.security.options("sasl_plain_username", "sasl_plain_password"),
        acks="all",
        enable_idempotence=work.settings.idempotence,
        linger_ms=linger_ms,
        batch_size=work.settings.batch_bytes,
        compression_type=compression,
        max_in_flight_requests_per_connection=work.settings.in_flight,
    )


def _connected(work: Work, linger_ms: int) -> Any:
    producer = _producer(work, linger_ms)
    producer.send(work.topic, work.value()).get(TIMEOUT)
    work.connecting += 1
    return producer


def _send(work: Work) -> None:
    producer = _connected(work, work.settings.linger_ms)
    try:
        topic, send = work.topic, producer.send
        with work.meter:
            behind: list[Any] = []
            for count in work.chunks():
                ahead = [send(topic, value) for value in work.values(count)]
                work.settled += _settle(behind)
                behind = ahead
            producer.flush(TIMEOUT)
            work.settled += _settle(behind)
    finally:
        producer.close()


def _settle(futures: list[Any]) -> int:
    for future in futures:
        future.get(TIMEOUT)
    return len(futures)


def _send_and_get(work: Work) -> None:
    producer = _connected(work, linger_ms=0)
    try:
        with work.meter:
            for value in work.values(work.messages):
                started = time.perf_counter()
                producer.send(work.topic, value).get(TIMEOUT)
                work.latencies.append(time.perf_counter() - started)
                work.settled += 1
    finally:
        producer.close()


def _transact(work: Work) -> None:
    producer = _producer(work, work.settings.linger_ms, work.transactional_id)

    def transact(values: Iterable[bytes]) -> None:
        producer.begin_transaction()
        sent = [producer.send(work.topic, value) for value in values]
        producer.commit_transaction()
        _settle(sent)

    try:
        producer.init_transactions()
        transact([work.value()])
        work.connecting += 1
        with work.meter:
            for values in work.transactions():
                started = time.perf_counter()
                transact(values)
                work.latencies.append(time.perf_counter() - started)
        work.settled += work.messages
    finally:
        producer.close()


def _start(work: Work) -> None:
    with work.meter:
        producer = _producer(work, linger_ms=0)
        producer.send(work.topic, work.value()).get(TIMEOUT)
    work.settled += 1
    producer.close()


def _poll(work: Work) -> None:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=work.bootstrap,
        **work.security.options("sasl_plain_username", "sasl_plain_password"),
        group_id=None,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_bytes=work.settings.fetch_max_bytes,
        max_partition_fetch_bytes=work.settings.partition_fetch_bytes,
    )
    consumer.partitions_for_topic(work.topic)
    try:
        with work.meter:
            consumer.assign([TopicPartition(work.topic, index) for index in range(work.settings.partitions)])
            count = size = 0
            while count < work.messages:
                fetched = consumer.poll(timeout_ms=1000, max_records=min(CHUNK, work.messages - count))
                for records in fetched.values():
                    count += len(records)
                    for record in records:
                        size += len(record.value)
        work.read(count, size)
    finally:
        consumer.close()


class KafkaPythonClient:
    asyncio: Asyncio | None = None

    def version(self) -> str:
        return version("kafka-python")

    def stated(self, settings: Settings) -> Stated:
        return Stated(works_in="a thread of its own")

    def ways(self, kind: Kind) -> Mapping[str, Run]:
        return {
            "produce": {"send(), later get()": _send},
            "latency": {"send().get()": _send_and_get},
            "transact": {"send(), commit_transaction()": _transact},
            "consume": {"poll()": _poll},
            "start": {"send().get()": _start},
        }[kind]


CLIENT = KafkaPythonClient()
