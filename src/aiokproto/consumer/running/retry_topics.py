"""Retry topics, where failed records wait so that they don't hold up others.

A record that fails is written to the first topic, with the time at which it's due in a header. From there it's handled
again, and if it fails again it's written to the next topic. All records of a topic wait equally long, so they're due in
the order in which they were written. Reading a partition stops at the first record that isn't due, so no record waits
in memory.
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
"""Header: when the record is handled again, in ms since the epoch."""

ATTEMPT = "__retry.attempt"
"""Header: how often the record was written to a retry topic."""

ORIGIN = "__retry.origin"
"""Header: the topic, partition and offset of the record that failed first."""

ERROR = "__retry.error"
"""Header: the last error."""

_ERROR_LENGTH = 1000


class RetryTopics:
    """Topics in which records wait that could not be handled, one topic for each delay.

    ::

        retry = RetryTopics({"orders.retry.1m": 60_000, "orders.retry.1h": 3_600_000}, producer)
        consumer = Consumer("orders", *retry.topics, bootstrap_servers=servers, group_id="billing")

    The consumer has to read them too, and they have to exist. **The order of records is given up**: the ones after a
    record that waits are handled before it.

    A record keeps its key and value as they were stored, and its headers; added are ``__retry.due`` (ms since the
    epoch), ``__retry.attempt``, ``__retry.origin`` (topic, partition and offset of the first failure) and
    ``__retry.error``.

    Attributes:
        topics: The names, in order.

    Raises:
        ConfigurationError: No topic is given, or a name or delay is invalid.
    """

    def __init__(self, topics: Mapping[str, float], producer: SupportsPostBytes) -> None:
        """``topics``: topic → delay in ms, in the order in which a record passes through them. ``producer``: a started
        producer, which stays the caller's; its serializers are not applied."""
        self._delays = _to_delays(topics)
        self._producer = producer
        self.topics = tuple(self._delays)

    def next(self, record: Record[Any, Any]) -> str | None:
        """Return the topic in which a failed record waits next; None if it has passed through all of them."""
        if record.topic not in self._delays:
            return self.topics[0]
        at = self.topics.index(record.topic) + 1
        return self.topics[at] if at < len(self.topics) else None

    def wait(self, record: Record[Any, Any]) -> float:
        """Return the seconds until a record is due; 0 if it's due, or isn't from a retry topic."""
        delay = self._delays.get(record.topic)
        if delay is None:
            return 0.0
        # Take the first such header. A record that was retried before has older ones behind it.
        due = next((value for name, value in record.headers if name == DUE), None)
        if due is None or not due.isdigit() or len(due) > 18:
            return 0.0
        # Never longer than the delay, whatever the header says.
        return min(max(int(due) / 1000 - current().milliseconds() / 1000, 0.0), delay)

    async def write(self, topic: str, record: Record[Any, Any], error: Exception) -> None:
        """Write a record that failed to a retry topic; it returns once the record is acknowledged.

        Raises:
            KafkaError: It could not be written.
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
