"""The methods for writing records. A producer and its open transaction share them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import FunctionType
from typing import cast

from aiokproto.net.features import ZSTD
from aiokproto.net.versions import BrokerVersions
from aiokproto.producer.append_pipeline import AppendPipeline
from aiokproto.producer.appender import RecordAppender
from aiokproto.producer.arrow_tables import SupportsArrow, TableAppender, is_table
from aiokproto.producer.buffer import Buffer, WriteSession
from aiokproto.producer.bulk import append_all
from aiokproto.producer.delivery import BatchDelivery, Delivery
from aiokproto.producer.encoded_batches import SupportsRecordBatches, record_batches
from aiokproto.producer.old_brokers import check_batches, lacks_parts_of_records
from aiokproto.producer.outcomes import BulkDelivery, Outcomes
from aiokproto.producer.partitioner import Partitioner
from aiokproto.producer.record import PendingRecord, ProducerRecord
from aiokproto.producer.serializers import Serializers
from aiokproto.records import RecordBatch
from aiokproto.records.compression import Bytes
from aiokproto.types import Header, K, RecordMetadata, V


class RecordSender(RecordAppender[K, V]):
    """Writes records while its session is allowed to append to the buffer."""

    def __init__(
        self,
        partitioner: Partitioner | None,
        buffer: Buffer,
        session: WriteSession,
        serializers: Serializers[K, V],
    ) -> None:
        super().__init__(partitioner)
        self._buffer = buffer
        # A call that waits in one transaction can't append to the next one.
        self._session = session
        self._serializers = serializers
        self._pipeline = AppendPipeline(self, buffer, session, serializers)
        self._has_pipeline = bool(serializers) or buffer.interceptors.sending
        self._tables = TableAppender(self, buffer, session)
        # The brokers' versions if an encoded batch can contain something that they don't support; otherwise None.
        self._old_versions: BrokerVersions | None = None

    def _check_records(self, versions: BrokerVersions) -> None:
        """Start refusing what the brokers can't store: see :mod:`aiokproto.producer.old_brokers`."""
        if not versions.supports(ZSTD):
            self._old_versions = versions
        if not lacks_parts_of_records(versions):
            return
        self._tables.versions = self._pipeline.versions = versions
        self._has_pipeline = True

    async def _append_later(self, record: PendingRecord) -> Delivery:
        return await self._buffer.append(self._session, record)

    async def _append_in_pipeline(self, topic: str, record: ProducerRecord[K, V]) -> Delivery:
        return await self._pipeline.append(topic, record)

    async def send(
        self,
        topic: str,
        value: V | None,
        *,
        key: K | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> RecordMetadata:
        """Write a record, and wait until the replicas that ``acks`` specifies have acknowledged it.

        If the call is cancelled before the record is buffered, the record is never sent. If it's cancelled later, the
        record is still delivered.

        Args:
            topic: The topic.
            value: The value: bytes, or what ``value_serializer`` accepts. None is a tombstone.
            key: The key, or None. Records with the same key are written to the same partition.
            headers: Pairs of key and value, in order; keys can repeat.
            partition: The partition, or None to let the partitioner choose.
            timestamp: Milliseconds since the epoch, or None for the current time.

        Returns:
            The partition, offset and timestamp of the record. The offset is -1 with ``acks=0``.

        Raises:
            InvalidRecordError: An argument has the wrong type or is out of range, or the broker rejected the record.
            SerializationError: A serializer failed; nothing was buffered.
            MessageTooLargeError: The record is larger than ``max_request_size``, or than the topic's
                ``max.message.bytes``.
            UnknownTopicError: The topic does not exist. Likewise InvalidTopicError and AuthorizationError.
            DeadlineError: Metadata or free buffer memory wasn't available within ``max_block_ms``, or a serializer did
                not return in time. Or there was no acknowledgement within ``delivery_timeout_ms``; in this case the
                record may have been written.
            BrokerError: The broker rejected the record.
            ClientClosedError: The producer is not started, is closed, or has failed.
        """
        if self._has_pipeline:
            record = ProducerRecord(value, key, headers, partition, timestamp)
            metadata = await (await self._pipeline.append(topic, record))
        else:
            appended = self._append(topic, value, key, headers, partition, timestamp)  # type: ignore[arg-type]
            if not isinstance(appended, Delivery):
                appended = await self._buffer.append(self._session, appended)
            metadata = await appended
        # The sender was able to run while this call waited, so the next slow append doesn't have to yield.
        self._buffer.task_has_waited()
        return metadata

    def try_post(
        self,
        topic: str,
        value: V | None,
        *,
        key: K | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Delivery:
        """Buffer a record without waiting: :meth:`post` for code that cannot await, such as a callback.

        It takes the arguments of :meth:`send`. Call it in the event loop's thread. A task that calls it in a loop
        without ever awaiting prevents the producer from sending.

        Raises:
            ConfigurationError: A serializer is asynchronous.
            BufferFullError: The buffer is full, other calls wait for memory, or the topic's metadata is not known yet;
                ``await partitions_for(topic)`` requests it.
            KafkaError: The same errors as :meth:`post`.
        """
        if self._has_pipeline:
            return self._pipeline.try_append(topic, ProducerRecord(value, key, headers, partition, timestamp))
        appended = self._append(topic, value, key, headers, partition, timestamp)  # type: ignore[arg-type]
        return appended if isinstance(appended, Delivery) else self._buffer.try_append(self._session, appended)

    async def post_bytes(
        self, topic: str, value: bytes | None, *, key: bytes | None = None, headers: Sequence[Header] = ()
    ) -> Delivery:
        """Buffer a record that is already serialized: :meth:`post` without the serializers.

        Use it to copy records unchanged, such as dead letters. It raises the same errors and suspends at the same
        points as :meth:`post`.
        """
        if self._has_pipeline:
            return await self._pipeline.append_bytes(topic, ProducerRecord(value, key, headers))
        appended = self._append(topic, value, key, headers, None, None)
        return appended if isinstance(appended, Delivery) else await self._buffer.append(self._session, appended)

    async def send_many(
        self,
        topic: str,
        records: Iterable[V | ProducerRecord[K, V]] | SupportsArrow,
        *,
        partition: int | None = None,
    ) -> Outcomes:
        """Write many records, and wait until each is written or has failed. Failures are returned, not raised.

        Records are buffered in order, but other tasks' records may be written between them. If cancelled, records that
        are already buffered are still delivered, and the rest are never sent.

        Args:
            topic: The topic.
            records: Values; or a :class:`ProducerRecord` for a record with a key, headers, partition or timestamp. Or a
                table from pyarrow, Polars, pandas, DuckDB or any library that supports Arrow's PyCapsule interface. A
                table has a column ``value`` and optionally ``key``, ``headers``, ``timestamp`` and ``partition``: see
                :func:`~aiokproto.records.rows.from_arrow`. Its rows are written without a Python object per row, and
                without the serializers.
            partition: The partition of records that don't specify one; None lets the partitioner choose.

        Returns:
            The metadata or the error of each record, in order. Errors that are never checked are logged. After an error
            that affects all records (unknown topic, no free memory within ``max_block_ms``, producer closed), the
            remaining records get the same error.

        Raises:
            InvalidRecordError: ``records`` is not an iterable of records; or a table lacks a column, has a column of
                the wrong type, or contains a partition that the topic doesn't have. Nothing was buffered.
            ImportError: ``records`` is a table, and pyarrow or numpy is not installed (extra ``arrow``).
        """
        return await (await self._append_many(topic, records, partition))

    async def post_many(
        self,
        topic: str,
        records: Iterable[V | ProducerRecord[K, V]] | SupportsArrow,
        *,
        partition: int | None = None,
    ) -> BulkDelivery:
        """Buffer many records without waiting for their acknowledgement.

        It takes the arguments of :meth:`send_many`, and suspends when :meth:`post` does. So if a caller awaits each
        call before the next, its records are written in order, and it needs no more memory than ``buffer_memory`` plus
        the records of one call. If cancelled, records that are already buffered are still delivered, and the rest are
        never sent.

        Returns:
            The delivery. Await it for the outcomes, or drop it: failures that are never checked are logged.

        Raises:
            InvalidRecordError, ImportError: For the same reasons as :meth:`send_many`.
        """
        return await self._append_many(topic, records, partition)

    async def _append_many(
        self, topic: str, records: Iterable[V | ProducerRecord[K, V]] | SupportsArrow, partition: int | None
    ) -> BulkDelivery:
        self._buffer.check_loop()
        if is_table(records):
            parts = await self._tables.append(topic, records, partition)
        else:
            values = cast("Iterable[V | ProducerRecord[K, V]]", records)
            parts = await append_all(self, topic, values, partition)
        return BulkDelivery(parts, self._buffer.accumulator.delivery_context)

    async def send_batch(
        self, topic: str, batch: SupportsRecordBatches | RecordBatch | Bytes, *, partition: int
    ) -> list[RecordMetadata]:
        """Write record batches without decoding them, and wait until they are acknowledged.

        The records are neither decompressed nor decoded: their bytes are sent unchanged, with a new batch header.
        Consumers read the same keys, values, headers and timestamps, in the same compression. Transactions are not
        copied: to leave out aborted records, read with ``isolation_level="read_committed"``.

        If cancelled, batches that are already buffered are still delivered, and the rest are never sent.

        Args:
            topic: The topic.
            batch: An item of :meth:`Consumer.batches() <aiokproto.consumer.Consumer.batches>`, a
                :class:`~aiokproto.records.RecordBatch`, or the bytes of one batch of magic 2. The bytes are copied.
                The checksum is verified here only if bytes are passed; otherwise the broker verifies it.
            partition: The partition. Batches and individual records written to it stay in the order of the calls.

        Returns:
            The metadata of each batch's first record. The other records follow at consecutive offsets, unless the batch
            was too large for the broker and was split: other producers' records may then be in between. The timestamp
            is the batch's greatest, or the broker's if the topic has LogAppendTime.

        Raises:
            InvalidRecordError: A batch cannot be sent unchanged; nothing was buffered. It starts before the consumer's
                position, is missing records that compaction removed, has the broker's timestamps (LogAppendTime), is in
                magic 0 or 1 (write its records with :meth:`send_many`), or is a control batch.
            CorruptRecordError: The bytes are not one valid record batch. Nothing was buffered.
            UnsupportedCompressionError: A batch has an unknown codec. Nothing was buffered.
            MessageTooLargeError: A batch is larger than ``max_request_size`` or ``buffer_memory``, and nothing was
                buffered; or a single record is larger than the topic's ``max.message.bytes``.
            KafkaError: The same errors as :meth:`send`. If there are several batches, some may have been written.
        """
        return await (await self.post_batch(topic, batch, partition=partition))

    async def post_batch(
        self, topic: str, batch: SupportsRecordBatches | RecordBatch | Bytes, *, partition: int
    ) -> BatchDelivery:
        """Buffer record batches without decoding them and without waiting for their acknowledgement.

        It takes the arguments of :meth:`send_batch`, and suspends when :meth:`post` does. If it's cancelled while a
        batch waits for memory, the batches before that one are already buffered.

        Returns:
            The delivery. Await it for the result, or drop it: a failure that is never retrieved is logged.

        Raises:
            KafkaError: The same errors as :meth:`send_batch`, except errors of the broker: the delivery raises those.
        """
        batches = record_batches(batch)
        if self._old_versions is not None:
            check_batches(self._old_versions, batches)
        return BatchDelivery(await self._buffer.append_encoded(self._session, topic, partition, batches))


# Python's own errors about a wrong call should mention the public class.
for _method in vars(RecordSender).values():
    if isinstance(_method, FunctionType):
        _method.__qualname__ = f"Producer.{_method.__name__}"
