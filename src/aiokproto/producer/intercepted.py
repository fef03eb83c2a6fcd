"""Records of a producer with interceptors: what takes the place of the appender's methods.

The hot path has no branch for interceptors: see :mod:`~aiokproto.producer.posting`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from aiokproto.application import repr_of
from aiokproto.errors import KafkaError
from aiokproto.interceptors import Interceptors, OutgoingRecord
from aiokproto.net.versions import BrokerVersions
from aiokproto.producer.delivery import Delivery
from aiokproto.producer.old_brokers import RecordCheck
from aiokproto.producer.posting import Append, AppendLater
from aiokproto.producer.record import PendingRecord
from aiokproto.types import Header, RecordMetadata

if TYPE_CHECKING:
    from aiokproto.producer.appender import RecordAppender

TryAppend = Callable[[PendingRecord], Delivery]


class _InterceptedRecord(PendingRecord):
    """A record that is not appended yet, with what the interceptors have made of it."""

    outgoing: OutgoingRecord


class Interception:
    """Calls the interceptors for each record that an appender appends."""

    def __init__(
        self, interceptors: Interceptors, appender: RecordAppender[Any, Any], later: AppendLater, now: TryAppend
    ) -> None:
        self._interceptors = interceptors
        # The appender's own method, before it is shadowed.
        self._plain: Append = appender._append
        self._later = later
        self._now = now

    def check_records(self, versions: BrokerVersions) -> None:
        """Refuse from now on what brokers before 0.11 cannot store."""
        self._plain = RecordCheck(versions, self._plain).append

    def append(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[Header],
        partition: int | None,
        timestamp: int | None,
    ) -> Delivery | PendingRecord:
        """As the appender's own method, for the record that the interceptors return."""
        record = self._interceptors.on_send(OutgoingRecord(topic, value, key, headers, partition, timestamp))
        try:
            appended = self._plain(
                record.topic, record.value, record.key, record.headers, record.partition, record.timestamp
            )
        except KafkaError as error:
            self._interceptors.on_acknowledgement(record, None, error)
            raise
        if isinstance(appended, Delivery):
            self._observe(record, appended)
            return appended
        pending = _InterceptedRecord(*appended)
        pending.outgoing = record
        return pending

    def append_run(self, topic: str, records: Sequence[object], start: int) -> None:
        """Append nothing: each record of a run takes the single path, where the interceptors are."""

    async def append_later(self, pending: PendingRecord) -> Delivery:
        """Append a record that :meth:`append` could not."""
        assert isinstance(pending, _InterceptedRecord), "append() has returned it"
        try:
            delivery = await self._later(pending)
        # Also a cancellation: the record is never sent, and a span that was begun for it has to end.
        except BaseException as error:
            failure = (
                error if isinstance(error, KafkaError) else KafkaError(f"the record was not buffered: {repr_of(error)}")
            )
            self._interceptors.on_acknowledgement(pending.outgoing, None, failure)
            raise
        self._observe(pending.outgoing, delivery)
        return delivery

    def try_append(self, pending: PendingRecord) -> Delivery:
        """The same without waiting."""
        assert isinstance(pending, _InterceptedRecord), "append() has returned it"
        try:
            delivery = self._now(pending)
        except KafkaError as error:
            self._interceptors.on_acknowledgement(pending.outgoing, None, error)
            raise
        self._observe(pending.outgoing, delivery)
        return delivery

    def _observe(self, record: OutgoingRecord, delivery: Delivery) -> None:
        # As a slice, which gives the result without counting as a caller that awaits the delivery.
        part = delivery.run()
        outcome = part.outcome

        def done() -> None:
            # The interceptor does not answer for the failure: one that no task awaits is still logged.
            observed = outcome.observed
            result = part[0]
            outcome.observed = observed
            if isinstance(result, RecordMetadata):
                self._interceptors.on_acknowledgement(record, result, None)
            else:
                self._interceptors.on_acknowledgement(record, None, result)

        outcome.add_done_callback(done)
