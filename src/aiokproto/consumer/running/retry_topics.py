"""Retry topics, where failed records wait without holding up other records.

A record that fails is written to the first topic, with a header that says when it's due. It's handled again from there,
and if it fails again, it's written to the next topic. All records in a topic wait equally long, so they become due in
the order they were written. Reading a partition stops at the first record that isn't due, so no record waits in memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from aiokproto.config.values import duration, text
from aiokproto.consumer.dead_letters import SupportsPostBytes
from aiokproto.errors import ConfigurationError
from aiokproto.runtime import current
from aiokproto.texts import repr_of
from aiokproto.types import Header, Record

DUE = "__retry.due"
"""Header: when to handle the record again, in ms since the epoch."""

ATTEMPT = "__retry.attempt"
"""Header: how many times the record was written to a retry topic."""

ORIGIN = "__retry.origin"
"""Header: the topic, partition and offset of the original record."""

ERROR = "__retry.error"
"""Header: the last error."""

_ERROR_LENGTH = 1000


class RetryTopics:
    """Topics where records that couldn't be handled wait, one topic for each delay.

    ::

        retry = RetryTopics({"orders.retry.1m": 60_000, "orders.retry.1h": 3_600_000}, producer)
        consumer = Consumer("orders", *retry.topics, bootstrap_servers=servers, group_id="billing")

    The topics have to exist, and the consumer has to read them too. **The order of records isn't preserved**: records
    after a waiting record are handled before it.

    A record keeps its stored key and value, and its headers. These headers are added: ``__retry.due`` (ms since the
    epoch), ``__retry.attempt``, ``__retry.origin`` (topic, partition and offset of the original record) and
    ``__retry.error``.

    Attributes:
        topics: The names, in order.

    Raises:
        ConfigurationError: No topic is given, or a name or delay is invalid.
    """

    def __init__(self, topics: Mapping[str, float], producer: SupportsPostBytes) -> None:
        """``topics`` maps topics to delays in ms, in the order a record passes through them. ``producer`` is a started
        producer, which the caller has to close; its serializers aren't applied."""
        self._delays = _to_delays(topics)
        self._producer = producer
        self.topics = tuple(self._delays)

    def next(self, record: Record[Any, Any]) -> str | None:
        """Return the topic where a failed record waits next; None if it has passed through all of them."""
        if record.topic not in self._delays:
            return self.topics[0]
        at = self.topics.index(record.topic) + 1
        return self.topics[at] if at < len(self.topics) else None

    def wait(self, record: Record[Any, Any]) -> float:
        """Return the seconds until a record is due; 0 if it's due, or isn't from a retry topic."""
        delay = self._delays.get(record.topic)
        if delay is None:
            return 0.0
        # Use the first such header: if the record was retried before, older headers follow it.
        due = next((value for name, value in record.headers if name == DUE), None)
        if due is None or not due.isdigit() or len(due) > 18:
            return 0.0
        # Never wait longer than the delay, whatever the header says.
        return min(max(int(due) / 1000 - current().milliseconds() / 1000, 0.0), delay)

    async def write(self, topic: str, record: Record[Any, Any], error: Exception) -> None:
        """Write a failed record to a retry topic. Return once the record is acknowledged.

        Raises:
            KafkaError: It couldn't be written.
        """
        before = {name: value for name, value in reversed(record.headers) if name.startswith("__retry.")}
        attempt = before.get(ATTEMPT) or b"0"
        attempts = int(attempt) + 1 if attempt.isdigit() and len(attempt) < 10 else 1
        due = current().milliseconds() + int(self._delays[topic] * 1000)
        headers: list[Header] = [
            (DUE, b"%d" % due),
            (ATTEMPT, b"%d" % attempts),
            (ORIGIN, before.get(ORIGIN) or f"{record.topic}-{record.partition}@{record.offset}".encode()),
            (ERROR, repr_of(error).encode(errors="replace")[:_ERROR_LENGTH]),
            *(header for header in record.headers if not header[0].startswith("__retry.")),
        ]
        await (await self._producer.post_bytes(topic, record.raw_value, key=record.raw_key, headers=headers))


def _to_delays(topics: Mapping[str, float]) -> dict[str, float]:
    """Check the topics of :class:`RetryTopics`. Return their delays in seconds."""
    if not isinstance(topics, Mapping) or not topics:
        raise ConfigurationError(f"RetryTopics({topics!r}): expected {{topic: delay in ms}}")
    named = {text("RetryTopics topic", topic): delay for topic, delay in topics.items()}
    return {topic: duration(f"RetryTopics[{topic!r}]", delay) for topic, delay in named.items()}
