"""What a producer does with each record beyond the hot path: serializers, interceptors, and a check for old brokers.

Most producers have none of these, and :class:`~aiokproto.producer.appender.RecordAppender` appends their records
directly. If a producer has any of them, all its records go through one :class:`AppendPipeline`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic

from aiokproto.errors import ConfigurationError, KafkaError
from aiokproto.interceptors import OutgoingRecord
from aiokproto.net.versions import BrokerVersions
from aiokproto.producer.buffer import Buffer, WriteSession
from aiokproto.producer.delivery import Delivery
from aiokproto.producer.old_brokers import check_record
from aiokproto.producer.record import PendingRecord, ProducerRecord
from aiokproto.producer.serializers import Serializers
from aiokproto.texts import repr_of
from aiokproto.types import K, RecordMetadata, V

if TYPE_CHECKING:
    from aiokproto.producer.appender import RecordAppender

Serialized = ProducerRecord[bytes, bytes]


class AppendPipeline(Generic[K, V]):
    """Serializes a record, passes it to the interceptors, checks that the brokers can store it, and appends it.

    Attributes:
        versions: The brokers' versions if they don't support every feature of a record; None if they do.
    """

    def __init__(
        self,
        appender: RecordAppender[Any, Any],
        buffer: Buffer,
        session: WriteSession,
        serializers: Serializers[K, V],
    ) -> None:
        """Create the pipeline of the producer, or of the transaction that ``session`` belongs to."""
        self._appender = appender
        self._buffer = buffer
        self._session = session
        self._serializers = serializers
        self._interceptors = buffer.interceptors if buffer.interceptors.sending else None
        self.versions: BrokerVersions | None = None

    async def append(self, topic: str, record: ProducerRecord[K, V]) -> Delivery:
        """Append a record, with the same errors as :meth:`Producer.post`. If it's cancelled, the record is never
        sent."""
        # Take the time before the serializers run: it's the time of the event.
        now = self._appender._now_ms()
        if self._serializers.is_async:
            key, value = await self._serializers.apply_later(record.key, record.value)
        else:
            key, value = self._serializers.apply(record.key, record.value)
        return await self._append(topic, _serialized(record, key, value), now)

    async def append_bytes(self, topic: str, record: Serialized) -> Delivery:
        """Like :meth:`append`, without the serializers."""
        return await self._append(topic, record, self._appender._now_ms())

    def try_append(self, topic: str, record: ProducerRecord[K, V]) -> Delivery:
        """Like :meth:`append`, without waiting.

        Raises:
            ConfigurationError: A serializer is asynchronous.
            BufferFullError: The call would have to wait.
        """
        if self._serializers.is_async:
            raise ConfigurationError("try_post() cannot await an async serializer: use await post()")
        now = self._appender._now_ms()
        key, value = self._serializers.apply(record.key, record.value)
        topic, serialized, outgoing = self._intercept(topic, _serialized(record, key, value))
        try:
            appended = self._append_now(topic, serialized, now)
            if not isinstance(appended, Delivery):
                appended = self._buffer.try_append(self._session, appended)
        except BaseException as error:
            self._report(outgoing, error)
            raise
        self._observe(outgoing, appended)
        return appended

    async def _append(self, topic: str, record: Serialized, now: int) -> Delivery:
        topic, record, outgoing = self._intercept(topic, record)
        try:
            appended = self._append_now(topic, record, now)
            if not isinstance(appended, Delivery):
                appended = await self._buffer.append(self._session, appended)
        # This also covers a cancellation: the record is never sent, and a span that was started for it must end.
        except BaseException as error:
            self._report(outgoing, error)
            raise
        self._observe(outgoing, appended)
        return appended

    def _append_now(self, topic: str, record: Serialized, now: int) -> Delivery | PendingRecord:
        # This comes after the interceptors: they may add headers.
        if self.versions is not None:
            check_record(self.versions, record)
        value, key, headers, partition, timestamp = record
        return self._appender._append(topic, value, key, headers, partition, now if timestamp is None else timestamp)

    # -- interceptors

    def _intercept(self, topic: str, record: Serialized) -> tuple[str, Serialized, OutgoingRecord | None]:
        """Return the topic and record to append, and the record that the interceptors returned, or None if there are no
        interceptors."""
        if self._interceptors is None:
            return topic, record, None
        value, key, headers, partition, timestamp = record
        made = self._interceptors.on_send(OutgoingRecord(topic, value, key, headers, partition, timestamp))
        record = ProducerRecord(made.value, made.key, made.headers, made.partition, made.timestamp)
        return made.topic, record, made

    def _report(self, outgoing: OutgoingRecord | None, error: BaseException) -> None:
        """Report to the interceptors that a record was not buffered."""
        if self._interceptors is not None and outgoing is not None:
            if not isinstance(error, KafkaError):
                error = KafkaError(f"the record was not buffered: {repr_of(error)}")
            self._interceptors.on_acknowledgement(outgoing, None, error)

    def _observe(self, outgoing: OutgoingRecord | None, delivery: Delivery) -> None:
        """Report the outcome of a buffered record to the interceptors once it's known."""
        interceptors = self._interceptors
        if interceptors is None or outgoing is None:
            return
        # Unlike an awaited delivery, a slice gives the result without marking it as observed by the application.
        part = delivery.run()
        outcome = part.outcome

        def done() -> None:
            # An interceptor doesn't take responsibility for a failure: if no task awaits it, it's still logged.
            observed = outcome.observed
            result = part[0]
            outcome.observed = observed
            if isinstance(result, RecordMetadata):
                interceptors.on_acknowledgement(outgoing, result, None)
            else:
                interceptors.on_acknowledgement(outgoing, None, result)

        outcome.add_done_callback(done)


def _serialized(record: ProducerRecord[K, V], key: bytes | None, value: bytes | None) -> Serialized:
    return ProducerRecord(value, key, record.headers, record.partition, record.timestamp)
