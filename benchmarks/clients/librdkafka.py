"""The configuration of librdkafka, the C library below both kinds of confluent-kafka's classes."""

from __future__ import annotations

from typing import Any

import confluent_kafka

from benchmarks.work import Settings, Work

CONSUME_AT_ONCE = 1000
QUEUE_BACKOFF_MS = 10
TIMEOUT = 60.0
NOTES = (
    f"fetch.queue.backoff.ms={QUEUE_BACKOFF_MS} (default 1000)",
    "check.crcs (default off)",
)


def version() -> str:
    return f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"


def _security(work: Work) -> dict[str, str]:
    options = work.security.options("sasl.username", "sasl.password")
    names = {
        "security_protocol": "security.protocol",
        "ssl_cafile": "ssl.ca.location",
        "sasl_mechanism": "sasl.mechanism",
    }
    return {names.get(name, name): value for name, value in options.items()}


def producer_options(work: Work, linger_ms: int) -> dict[str, Any]:
    return {
        "bootstrap.servers": work.bootstrap,
        **_security(work),
        "acks": "all",
        "enable.idempotence": work.settings.idempotence,
        "linger.ms": linger_ms,
        "batch.size": work.settings.batch_bytes,
        "compression.type": work.compression,
        "max.in.flight.requests.per.connection": work.settings.in_flight,
    }


def consumer_options(work: Work) -> dict[str, Any]:
    return {
        "bootstrap.servers": work.bootstrap,
        **_security(work),
        # Required by the library, and not used: partitions are assigned and nothing is committed.
        "group.id": "benchmarks",
        "enable.auto.commit": False,
        "fetch.max.bytes": work.settings.fetch_max_bytes,
        "max.partition.fetch.bytes": work.settings.partition_fetch_bytes,
        "check.crcs": True,
        # By default it pauses for a second when it has fetched ahead far enough, and a fast reader waits for it.
        "fetch.queue.backoff.ms": QUEUE_BACKOFF_MS,
    }


def assignment(topic: str, settings: Settings) -> list[Any]:
    """All partitions, from the beginning."""
    beginning = confluent_kafka.OFFSET_BEGINNING
    return [confluent_kafka.TopicPartition(topic, index, beginning) for index in range(settings.partitions)]


def value(message: Any) -> bytes:
    if message.error() is not None:
        raise confluent_kafka.KafkaException(message.error())
    found: bytes = message.value()
    return found
