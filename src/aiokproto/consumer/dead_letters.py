"""Dead letters: records that cannot be processed, and are written to a separate topic with the cause in headers.

The headers have the names that Kafka's dead-letter queues for share groups use (KIP-1191), so tools for these queues
can read them. Kafka writes neither a timestamp nor the error's class; the two headers for them follow the same naming
scheme.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from aiokproto.application.calls import calling, check_not_awaitable
from aiokproto.errors import ConfigurationError, KafkaError, said_of
from aiokproto.texts import repr_of, text_of
from aiokproto.types import Header, Record

PREFIX = "__dlq.errors."
"""The prefix of the headers' names."""

_LONGEST_MESSAGE = 8 * 1024
"""Maximum size of an error message in a header, in bytes: a decoder's error can quote the whole value."""


class SupportsPostBytes(Protocol):
    """The part of a producer that dead letters need."""

    async def post_bytes(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, headers: Sequence[Header] = ()
    ) -> Awaitable[Any]: ...


class DeadLetterTopic:
    """Writes records that cannot be processed to a topic, with the cause in headers.

    A dead letter contains the record's stored key and value, its headers, and these additional headers as UTF-8 text:

    ================================= ============================================================
    ``__dlq.errors.topic``            the topic that the record was read from ``__dlq.errors.partition``        its
    partition there ``__dlq.errors.offset``           its offset there ``__dlq.errors.timestamp``        its timestamp
    there, in milliseconds; absent if it has none ``__dlq.errors.group``            the consumer group; absent if there
    is none ``__dlq.errors.delivery.count``   how often it was delivered; absent if not counted
    ``__dlq.errors.exception.class``  the class of the error, with its module ``__dlq.errors.message``          the
    error message ================================= ============================================================

    A record that was a dead letter before keeps only the newest of these headers. The producer's partitioner chooses
    the partition by the key. Its serializers aren't applied.
    """

    def __init__(self, topic: str | Callable[[Record[Any, Any]], str], producer: SupportsPostBytes) -> None:
        """Create the writer, without connecting.

        Args:
            topic: The topic, or a function that returns it for a record, such as
                ``lambda record: f"{record.topic}.dlq"``.
            producer: A :class:`~aiokproto.producer.Producer`, which you start and close. Its ``acks`` and
                ``delivery_timeout_ms`` apply. It cannot have a ``transactional_id``.

        Raises:
            ConfigurationError: An argument has the wrong type.
        """
        if not isinstance(topic, str) and not callable(topic):
            raise ConfigurationError(f"topic={topic!r}: expected a topic's name, or a function of the record")
        if not hasattr(producer, "post_bytes"):
            raise ConfigurationError(f"producer={producer!r}: expected a Producer")
        if getattr(producer, "transactional_id", None) is not None:
            raise ConfigurationError(
                "DeadLetterTopic(): a producer with a transactional_id writes in transactions only: pass another one"
            )
        self._topic = topic
        self._producer = producer

    async def write(
        self,
        record: Record[Any, Any],
        error: BaseException,
        *,
        group: str | None = None,
        delivery_count: int | None = None,
    ) -> None:
        """Write a record, and wait until it is acknowledged.

        If the call is cancelled before the record is buffered, the record is never sent. If it's cancelled later, the
        record is still delivered.

        Args:
            record: The record, as the consumer delivered it.
            error: Why it cannot be processed.
            group: The consumer group.
            delivery_count: How often the record was delivered.

        Raises:
            KafkaError: The same errors as :meth:`Producer.send() <aiokproto.producer.Producer.send>`. The record counts
                as unprocessed.
        """
        delivery = await self.post(record, error, group=group, delivery_count=delivery_count)
        try:
            await delivery
        except KafkaError as failure:
            raise said_of(failure, self.unwritten(record)) from failure

    async def post(
        self,
        record: Record[Any, Any],
        error: BaseException,
        *,
        group: str | None = None,
        delivery_count: int | None = None,
    ) -> Awaitable[Any]:
        """Buffer a record like :meth:`write`, but don't wait for its acknowledgement.

        The record counts as processed only after you have awaited its delivery. If the call is cancelled, the record is
        never sent.

        Raises:
            KafkaError: The same errors as :meth:`Producer.post() <aiokproto.producer.Producer.post>`.
        """
        topic = self._name(record)
        headers = [header for header in record.headers if not header[0].startswith(PREFIX)]
        headers += _cause(record, error, group, delivery_count)
        try:
            return await self._producer.post_bytes(topic, record.raw_value, key=record.raw_key, headers=headers)
        except KafkaError as failure:
            raise said_of(failure, self.unwritten(record)) from failure

    def _name(self, record: Record[Any, Any]) -> str:
        if isinstance(self._topic, str):
            return self._topic
        with calling("DeadLetterTopic(topic)"):
            topic: object = self._topic(record)
            check_not_awaitable(topic, "DeadLetterTopic(topic)")
        if not isinstance(topic, str):
            raise ConfigurationError(f"DeadLetterTopic(topic) returned {repr_of(topic, 80)}: expected a topic's name")
        return topic

    def unwritten(self, record: Record[Any, Any]) -> str:
        """Return the first part of an error message about the dead letter of ``record``."""
        topic = self._name(record)
        return (
            f"the dead letter of {record.topic}-{record.partition}@{record.offset} cannot be written to topic {topic!r}"
        )


def _cause(
    record: Record[Any, Any], error: BaseException, group: str | None, delivery_count: int | None
) -> list[Header]:
    """Return the headers that say where a record was read from, and why it's a dead letter."""
    kind = type(error)
    texts = {
        "topic": record.topic,
        "partition": str(record.partition),
        "offset": str(record.offset),
        "timestamp": None if record.timestamp < 0 else str(record.timestamp),
        "group": group,
        "delivery.count": None if delivery_count is None else str(delivery_count),
        "exception.class": f"{kind.__module__}.{kind.__qualname__}",
        "message": text_of(error) or None,
    }
    # Use "replace": an exception's message may contain lone surrogates, which UTF-8 cannot encode.
    return [
        (PREFIX + name, text.encode(errors="replace")[:_LONGEST_MESSAGE])
        for name, text in texts.items()
        if text is not None
    ]
