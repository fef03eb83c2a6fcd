"""kafka-python: pure Python, a thread beside the caller's."""

from __future__ import annotations

import time
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import kafka
from kafka.structs import TopicPartition

from benchmarks.clients import Run
from benchmarks.work import CHUNK, Kind, Settings, Work

TIMEOUT = 30.0


def _producer(work: Work, kind: Kind) -> Any:
    return kafka.KafkaProducer(
        bootstrap_servers=work.bootstrap,
        acks="all",
        linger_ms=work.linger_ms(kind),
        batch_size=work.settings.batch_bytes,
        compression_type=None,
        max_in_flight_requests_per_connection=work.settings.in_flight,
    )


def _send(work: Work) -> None:
    producer = _producer(work, "produce")
    try:
        producer.send(work.topic, work.value).get(TIMEOUT)
        topic, value, send = work.topic, work.value, producer.send
        with work.meter:
            behind: list[Any] = []
            for count in work.chunks():
                ahead = [send(topic, value) for _ in range(count)]
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
    producer = _producer(work, "latency")
    try:
        producer.send(work.topic, work.value).get(TIMEOUT)
        with work.meter:
            for _ in range(work.messages):
                started = time.perf_counter()
                producer.send(work.topic, work.value).get(TIMEOUT)
                work.latencies.append(time.perf_counter() - started)
                work.settled += 1
    finally:
        producer.close()


def _consumer(work: Work) -> Any:
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=work.bootstrap,
        group_id=None,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_bytes=work.settings.fetch_max_bytes,
        max_partition_fetch_bytes=work.settings.partition_fetch_bytes,
    )
    consumer.partitions_for_topic(work.topic)
    return consumer


def _poll(work: Work) -> None:
    consumer = _consumer(work)
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
    def version(self) -> str:
        return version("kafka-python")

    def stated(self, settings: Settings) -> Mapping[str, str]:
        idempotent = kafka.KafkaProducer.DEFAULT_CONFIG["enable_idempotence"]
        return {
            "idempotence": f"{'on' if idempotent else 'off'} (default)",
            "in flight": str(settings.in_flight),
            "checks CRCs": "yes (default)",
        }

    def ways(self, kind: Kind) -> Mapping[str, Run]:
        return {
            "produce": {"send(), later get()": _send},
            "latency": {"send().get()": _send_and_get},
            "consume": {"poll()": _poll},
        }[kind]


CLIENT = KafkaPythonClient()
