"""The producer's hot path: the code that runs for every record. It has a compiled form.

A record takes one synchronous call if its topic is in ``_ready_topics`` and its partition's open batch has space. A
topic is there only while the producer is open and no earlier call waits to append to it, so neither has to be checked
for each record. :class:`~aiokproto.producer.record_sender.RecordSender` does everything else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Generic

from aiokproto.accelerator import has_compiled_form
from aiokproto.application.calls import failure
from aiokproto.producer.delivery import BatchSlice, Delivery
from aiokproto.producer.partitioner import Partitioner, check_partition, key_hash
from aiokproto.producer.record import PendingRecord, ProducerRecord, as_bytes, check_headers, check_timestamp
from aiokproto.runtime import SYSTEM, thread_id
from aiokproto.types import Header, K, V

if TYPE_CHECKING:
    from aiokproto.producer.queue import TopicQueues


@has_compiled_form
class RecordAppender(Generic[K, V]):
    """Appends records to open batches.

    The producer inherits from this class, so :meth:`post` is a single call for nearly every record.
    """

    def __init__(self, partitioner: Partitioner | None) -> None:
        """Create an appender without topics. If ``partitioner`` is None, it uses the built-in one."""
        # The topics to which a record can be appended without waiting. A topic is removed while the producer is closed
        # or an earlier call waits to append to it, so one lookup replaces these two checks.
        self._ready_topics: dict[str, TopicQueues] = {}
        self._partitioner = partitioner
        # True if each record goes through _append_in_pipeline().
        self._has_pipeline = False
        # The event loop's thread. A call in another thread takes the slow path, which raises ConfigurationError.
        # Reading a thread's id is far cheaper than asking asyncio for the running loop.
        self._thread = 0
        # Simulations replace it. None means the system clock, which the compiled form reads without a Python call.
        self._milliseconds: Callable[[], int] | None = None

    def _set_ready(self, topic: str, queues: TopicQueues | None) -> None:
        """Allow appending to a topic without waiting, or forbid it if ``queues`` is None."""
        if queues is None:
            self._ready_topics.pop(topic, None)
        else:
            self._ready_topics[topic] = queues

    def _now_ms(self) -> int:
        return (self._milliseconds or SYSTEM.milliseconds)()

    async def post(
        self,
        topic: str,
        value: V | None,
        *,
        key: K | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Delivery:
        """Buffer a record. It suspends while the topic's metadata is requested, and while the buffer is full.

        It takes the same arguments as :meth:`~aiokproto.producer.Producer.send`. If the call is cancelled while it's
        suspended, the record is never sent.

        Returns:
            The delivery. Await it for the result, or drop it: a failure that is never retrieved is logged, once per
            batch.

        Raises:
            KafkaError: The same errors as :meth:`~aiokproto.producer.Producer.send`, except errors of the broker: the
                delivery raises those.
        """
        if self._has_pipeline:
            return await self._append_in_pipeline(topic, ProducerRecord(value, key, headers, partition, timestamp))
        # Without serializers, K and V are bytes; anything else is refused.
        appended = self._append(topic, value, key, headers, partition, timestamp)  # type: ignore[arg-type]
        if isinstance(appended, Delivery):
            return appended
        return await self._append_later(appended)

    async def _append_later(self, record: PendingRecord) -> Delivery:
        """Append a record that needs a new batch, memory, or metadata."""
        raise NotImplementedError

    async def _append_in_pipeline(self, topic: str, record: ProducerRecord[K, V]) -> Delivery:
        """Run a record through the steps of :mod:`aiokproto.producer.append_pipeline`, and append it."""
        raise NotImplementedError

    def _append(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: Sequence[Header],
        partition: int | None,
        timestamp: int | None,
    ) -> Delivery | PendingRecord:
        """Check a record and, if its partition's open batch has room, append it there."""
        # `__class__ is` handles the common case without a call; subclasses of bytes take the check.
        if value.__class__ is not bytes and value is not None:
            value = as_bytes("value", value)
        if key.__class__ is not bytes and key is not None:
            key = as_bytes("key", key)
        # () is the default and by far the most common value, so it isn't checked. None is a mistake that check_headers
        # reports.
        if headers or headers is None:
            headers = check_headers(headers)
        if timestamp is None:
            # Take the time now, even if the record then waits for memory: it's the time of the event, not of the
            # append.
            timestamp = self._now_ms()
        else:
            timestamp = check_timestamp(timestamp)
        queues = self._ready_topics.get(topic)
        if queues is None or self._thread != thread_id():
            return PendingRecord(topic, partition, timestamp, key, value, headers)
        # All three tests are false in the common case of a value alone, and nothing is called.
        if partition is not None or key is not None or self._partitioner is not None:
            partition = self._choose_partition(queues, partition, key, value)
        batch = (queues.sticky if partition is None else queues.queues[partition]).open
        if batch is not None:
            index = batch.append(timestamp, key, value, headers)
            # None means that the batch is full, or has reserved less than it's allowed to. The slow path grows it.
            if index is not None:
                return Delivery(batch.outcome, index, timestamp)
        # A chosen partition is kept. None, for the sticky partition, is resolved again later.
        return PendingRecord(topic, partition, timestamp, key, value, headers)

    def _choose_partition(
        self, queues: TopicQueues, partition: int | None, key: bytes | None, value: bytes | None
    ) -> int | None:
        """Return the record's partition, or None for the sticky one."""
        count = len(queues.queues)
        if partition is not None:
            return check_partition(partition, queues.name, count)
        if self._partitioner is not None:
            # The partitioner is the caller's code, so its choice is checked; an invalid choice fails only this record.
            try:
                chosen = self._partitioner(queues.name, key, value, range(count), queues.available)
            except Exception:
                raise
            except BaseException as error:
                raise failure(error, "partitioner") from error
            return None if chosen is None else check_partition(chosen, queues.name, count, "the partitioner's ")
        return None if key is None else key_hash(key) % count

    def _append_run(self, topic: str, records: Sequence[object], start: int) -> BatchSlice | None:
        """Append plain values, beginning with the one at ``start``, to the sticky partition's open batch, in one call.

        It stops at the first item that isn't bytes or doesn't fit. Returns None if no value was appended.
        """
        queues = self._ready_topics.get(topic)
        # A partitioner may choose differently for each value.
        batch = None if queues is None or self._partitioner is not None else queues.sticky.open
        if batch is None or self._thread != thread_id():
            return None
        # The whole run shares one timestamp, so its results need only one (BatchSlice).
        timestamp = self._now_ms()
        first = batch.count
        for position in range(start, len(records)):
            value = records[position]
            if not isinstance(value, bytes) or batch.append(timestamp, None, value, ()) is None:
                break
        count = batch.count - first
        return BatchSlice(batch.outcome, first, count, timestamp) if count else None
