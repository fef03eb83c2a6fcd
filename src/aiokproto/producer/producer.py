"""The producer's public API. The package's docstring explains how it works."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Iterable, Sequence
from inspect import signature
from types import TracebackType
from typing import TYPE_CHECKING, Literal, cast

from aiokproto.async_context import AsyncContext
from aiokproto.cluster import ClusterClient
from aiokproto.config import ClusterConfig, ConnectionOptions, seconds
from aiokproto.errors import ClientClosedError, DeadlineError, KafkaError
from aiokproto.plurals import counted
from aiokproto.producer.accumulator import Accumulator
from aiokproto.producer.appender import RecordAppender
from aiokproto.producer.arrow_tables import SupportsArrow, TableAppender, is_table
from aiokproto.producer.batch import ProducerBatch
from aiokproto.producer.buffer import Buffer
from aiokproto.producer.bulk import append_all
from aiokproto.producer.config import BATCH_SIZE, ProducerConfig
from aiokproto.producer.delivery import BatchDelivery, Delivery
from aiokproto.producer.encoded_batches import SupportsRecordBatches, record_batches
from aiokproto.producer.outcomes import Outcomes, outcomes_of
from aiokproto.producer.partitioner import Partitioner
from aiokproto.producer.record import ProducerRecord
from aiokproto.producer.sender import Sender
from aiokproto.producer.summary import delivery_error, summary, undelivered
from aiokproto.producer.waiting import wait_all, wait_done
from aiokproto.records import RecordBatch
from aiokproto.records.compression import Bytes
from aiokproto.runtime import SYSTEM, current
from aiokproto.types import Header, RecordMetadata

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

log = logging.getLogger("aiokproto.producer")

SLOW_CLOSE = 1.0
"""Seconds after which :meth:`Producer.close` logs what it waits for."""
DISCONNECT = 5.0
"""Longest time to disconnect (s) when :meth:`Producer.close` has no deadline."""


class Producer(AsyncContext, RecordAppender):
    """Writes records to topics.

    ::

        async with Producer(bootstrap_servers="localhost:9092") as producer:
            where = await producer.send("flights", b"UA 901", key=b"UA")

    There are three ways to write a record. :meth:`send` waits until it is acknowledged, :meth:`post` until it is
    buffered, and :meth:`try_post` does not wait at all. :meth:`send_many` writes many records at :meth:`post`'s cost
    per record. :meth:`send_batch` and :meth:`post_batch` write record batches without decoding them.

    Records of one partition are written in the order of the calls, also after retries. Without idempotence this needs
    ``max_in_flight_requests_per_connection=1``, and a retry can write a record twice.

    Any number of tasks can share a producer, but only in one event loop: the one that runs :meth:`start`.
    """

    def __init__(
        self,
        *,
        acks: Literal[0, 1, -1, "all"] = "all",
        enable_idempotence: bool | None = None,
        linger_ms: float = 5,
        batch_size: int = BATCH_SIZE,
        buffer_memory: int = 32 * 1024 * 1024,
        compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none",
        compression_level: int | None = None,
        max_request_size: int = 1024 * 1024,
        delivery_timeout_ms: float = 120_000,
        max_in_flight_requests_per_connection: int = 5,
        partitioner: Literal["default"] | Partitioner = "default",
        max_block_ms: float = 60_000,
        close_timeout_ms: float | None = None,
        **connection: Unpack[ConnectionOptions],
    ) -> None:
        """Check the options. No connection is opened before :meth:`start`.

        Args:
            acks: Which replicas must have a record before it is acknowledged: "all" (or -1) for all in-sync replicas, 1
                for the leader, 0 for none. With 0 neither errors nor offsets are known.
            enable_idempotence: Whether brokers drop duplicates that retries cause (KIP-98). Needs ``acks="all"`` and
                ``max_in_flight_requests_per_connection`` of at most 5. None enables it if these options allow it.
            linger_ms: How long a batch waits for more records (ms).
            batch_size: Size at which a batch is sent, in bytes before compression; at most ``max_request_size``.
            buffer_memory: Limit of buffered records (bytes). When it is reached, :meth:`post` waits.
            compression_type: The codec of batches.
            compression_level: gzip 1 to 9, lz4 1 to 16, zstd -131072 to 22; None for the codec's default.
            max_request_size: Size of the largest record and the largest request, in bytes before compression.
            delivery_timeout_ms: Longest time from buffering a record to its acknowledgement (ms), including linger and
                all retries.
            max_in_flight_requests_per_connection: Most requests without a response per broker.
            partitioner: "default" hashes keys with murmur2 as the Java client does, and appends records without a key
                to one partition until its batch is full (KIP-480, KIP-794). Or a :class:`Partitioner`.
            max_block_ms: Longest time a call waits for the topic's metadata and for free buffer memory (ms).
            close_timeout_ms: Longest time for :meth:`close` and for leaving ``async with`` (ms). None waits until every
                record has an outcome, at most ``delivery_timeout_ms``.
            connection: The options that all clients share: see :class:`~aiokproto.config.ConnectionOptions`.

        Raises:
            ConfigurationError: An option is unknown, or its value is invalid.
        """
        self._settings = ProducerConfig.parse(
            acks=acks,
            enable_idempotence=enable_idempotence,
            linger_ms=linger_ms,
            batch_size=batch_size,
            buffer_memory=buffer_memory,
            compression_type=compression_type,
            compression_level=compression_level,
            max_request_size=max_request_size,
            delivery_timeout_ms=delivery_timeout_ms,
            max_in_flight_requests_per_connection=max_in_flight_requests_per_connection,
            partitioner=partitioner,
            max_block_ms=max_block_ms,
            close_timeout_ms=close_timeout_ms,
        )
        self._config = ClusterConfig.parse(connection, own=OPTIONS)
        self._accumulator = Accumulator(
            self._settings.limits,
            compression=self._settings.compression,
            level=self._settings.compression_level,
            choose=lambda partitions: current().random.choice(partitions),
        )
        self._buffer = Buffer(self._accumulator, self._settings, self)
        super().__init__(self._settings.partitioner, self._buffer.append)
        self._tables = TableAppender(self, self._buffer)
        self._cluster: ClusterClient
        self._sender: Sender | None = None
        self._starting = False
        self._closing = False
        self._unsent = 0

    # -- lifecycle

    async def start(self) -> None:
        """Connect to the cluster; ``async with`` does this.

        Cancelling it closes the connections; the producer cannot be started again.

        Raises:
            BootstrapError: None of the bootstrap servers can be used. The text has the reason for each.
            AuthenticationError: The brokers rejected this client's credentials.
            DeadlineError: The brokers did not respond in time.
            ClientClosedError: The producer was started before, or was closed while it started.
        """
        if self._starting or self._sender is not None:
            raise ClientClosedError("a producer can be started only once: create a new one")
        self._starting = True
        runtime = current()
        self._wall = None if runtime is SYSTEM else runtime.wall
        self._cluster = ClusterClient(self._config, self._accumulator.last_used)
        try:
            await self._cluster.start()
        except BaseException:
            await self._cluster.close()
            raise
        finally:
            self._starting = False
        self._sender = Sender(
            self._cluster,
            self._accumulator,
            self._settings,
            self._config.request_timeout,
            on_metadata=self._buffer.update_topics,
            on_batches_done=self._buffer.memory_freed,
            on_failure=self._failed,
        )
        self._buffer.open(self._cluster, self._sender.timer)
        self._sender.start()

    def _failed(self, cause: BaseException) -> None:
        log.error("the producer has failed", exc_info=cause)
        if isinstance(cause, KafkaError):
            error = cause
        else:
            error = ClientClosedError(f"the producer has failed: {cause!r}")
            error.__cause__ = cause
        self._buffer.close(error)
        self._unsent = sum(batch.count for batch in self._accumulator.incomplete)
        self._accumulator.fail_all(lambda _: error)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except KafkaError as undelivered:
            # The block's own exception is the cause; the undelivered records must not replace it.
            if error is None:
                raise
            log.error("%s", undelivered)

    async def flush(self, timeout_ms: float | None = None) -> None:
        """Send all buffered records without linger, and wait until each is written or has failed.

        Failures are not raised here but by the records' deliveries. Cancelling has no effect on the records.

        Args:
            timeout_ms: Longest wait (ms). None waits until every record has an outcome, at most
                ``delivery_timeout_ms``.

        Raises:
            DeadlineError: The timeout passed first. The records are still being delivered.
            ClientClosedError: The producer is not started, is closed, or has failed.
        """
        self._buffer.check_open()
        _check_timeout(timeout_ms)
        batches = self._send_all()
        await self._wait(batches, timeout_ms)
        pending = [batch for batch in batches if not batch.done]
        if pending:
            waited = self._settings.limits.delivery_timeout * 1000 if timeout_ms is None else timeout_ms
            raise DeadlineError(f"flush: {summary(pending)} without outcome after {waited:g} ms")
        if not self._closing:
            self._buffer.check_open()

    def _send_all(self) -> list[ProducerBatch]:
        """End the linger of all batches, and return those without an outcome."""
        self._accumulator.end_linger()
        if self._sender is not None:
            self._sender.timer.call_soon()
        return list(self._accumulator.incomplete)

    async def _wait(self, batches: list[ProducerBatch], timeout_ms: float | None) -> None:
        """Wait until batches have an outcome, or a timeout passes."""
        # None: the sender expires every batch after the delivery timeout, so this timeout only guards against a sender
        # that has failed.
        timeout = self._settings.limits.delivery_timeout + 1 if timeout_ms is None else timeout_ms / 1000
        await wait_all([batch.outcome for batch in batches], timeout)

    async def close(self, timeout_ms: float | None = None) -> None:
        """Deliver all buffered records, then disconnect. A second call does nothing.

        If it waits for more than a second, it logs for which records. Cancelled, it stops waiting: undelivered records
        fail, and the connections are closed.

        Args:
            timeout_ms: Longest time for deliveries and for flushing the connections (ms); 0 does not wait. None means
                ``close_timeout_ms``; if that is None too, it waits until every record has an outcome, at most
                ``delivery_timeout_ms``.

        Raises:
            DeadlineError: Some records were not delivered in time. The text has their number per partition and the
                reason; each of their deliveries raises too.
            KafkaError: Some records failed for another reason during the close, and no task awaited their deliveries.
        """
        self._buffer.check_loop()
        _check_timeout(timeout_ms)
        if self._starting:
            await self._cluster.close(DISCONNECT if timeout_ms is None else min(timeout_ms / 1000, DISCONNECT))
        if self._sender is None or self._closing:
            return
        self._closing = True
        timeout_ms = self._settings.close_timeout_ms if timeout_ms is None else timeout_ms
        loop = asyncio.get_running_loop()
        started = loop.time()
        failure = self._buffer.closed
        closed = ClientClosedError("the producer is closed")
        closed.__cause__ = failure
        self._buffer.close(closed)
        batches = self._send_all()
        slow = loop.call_later(SLOW_CLOSE, self._log_slow_close, batches)
        try:
            await self._wait(batches, timeout_ms)
        finally:
            slow.cancel()
            late = {batch for batch in batches if not batch.done}
            try:
                await self._sender.stop()
            finally:
                self._accumulator.fail_all(undelivered)
                left = DISCONNECT if timeout_ms is None else started + timeout_ms / 1000 - loop.time()
                await self._cluster.close(min(max(left, 0.0), DISCONNECT))
        failed = [batch for batch in batches if batch.outcome.error is not None]
        lost = [batch for batch in failed if batch in late or not batch.outcome.observed]
        if lost:
            raise delivery_error(lost)

    def _log_slow_close(self, batches: list[ProducerBatch]) -> None:
        pending = [batch for batch in batches if not batch.done]
        if pending:
            log.warning("closing the producer waits for %s", summary(pending))

    def __del__(self) -> None:
        # getattr: __init__ may have raised because of an invalid option.
        if getattr(self, "_sender", None) is not None and not self._closing:
            unsent = self._unsent + sum(batch.count for batch in self._accumulator.incomplete)
            what = f"unclosed Producer, {counted(unsent, 'record')} unsent"
            warnings.warn(what, ResourceWarning, source=self, stacklevel=1)

    # -- records

    async def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> RecordMetadata:
        """Write a record, and wait until it is acknowledged by the replicas that ``acks`` names.

        Cancelled before the record is buffered, the record is never sent. Cancelled later, it is still delivered.

        Args:
            topic: The topic.
            value: The value; None is a tombstone.
            key: The key, or None. Records with the same key are written to the same partition.
            headers: Pairs of key and value, in order; keys can repeat.
            partition: The partition; None lets the partitioner choose.
            timestamp: Milliseconds since the epoch; None for the current time.

        Returns:
            The partition, offset and timestamp of the record. The offset is -1 with ``acks=0``.

        Raises:
            InvalidRecordError: An argument has the wrong type or is out of range, or the broker rejected the record.
            MessageTooLargeError: The record is larger than ``max_request_size``, or than the topic's
                ``max.message.bytes``.
            UnknownTopicError: The topic does not exist. Likewise InvalidTopicError and AuthorizationError.
            DeadlineError: There was no metadata or no free buffer memory within ``max_block_ms``; or no acknowledgement
                within ``delivery_timeout_ms``: then the record may have been written.
            BrokerError: The broker rejected the record.
            ClientClosedError: The producer is not started, is closed, or has failed.
        """
        appended = self._append(topic, value, key, headers, partition, timestamp)
        if not isinstance(appended, Delivery):
            appended = await self._buffer.append(appended)
        where = await appended
        self._buffer.task_has_waited()
        return where

    def try_post(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Sequence[Header] = (),
        partition: int | None = None,
        timestamp: int | None = None,
    ) -> Delivery:
        """Buffer a record without waiting: :meth:`post` for code that cannot await, such as a callback.

        The arguments are those of :meth:`send`. Call it in the event loop's thread. A task that calls it in a loop and
        never awaits prevents the producer from sending.

        Raises:
            BufferFullError: The buffer is full, other calls wait for memory, or the topic's metadata is not known yet;
                ``await partitions_for(topic)`` requests it.
            KafkaError: As for :meth:`post`.
        """
        appended = self._append(topic, value, key, headers, partition, timestamp)
        return appended if isinstance(appended, Delivery) else self._buffer.try_append(appended)

    async def send_many(
        self,
        topic: str,
        records: Iterable[bytes | ProducerRecord] | SupportsArrow,
        *,
        partition: int | None = None,
    ) -> Outcomes:
        """Write many records, and wait until each is written or has failed. Failures are returned, not raised.

        Records are buffered in order, but other tasks' records may be written between them. Cancelled, buffered records
        are still delivered, and the others are never sent.

        Args:
            topic: The topic.
            records: Values; or a :class:`ProducerRecord` for a record with a key, headers, partition or timestamp. Or a
                table of pyarrow, Polars, pandas, DuckDB or any library with Arrow's PyCapsule interface. A table has a
                column ``value`` and optionally ``key``, ``headers``, ``timestamp`` and ``partition``: see
                :func:`~aiokproto.records.rows.from_arrow`. Its rows are written without a Python object per row.
            partition: The partition of records without one of their own; None lets the partitioner choose.

        Returns:
            The metadata or the error of each record, in order; errors that are never checked are logged. After an
            error that affects all records (unknown topic, no free memory within ``max_block_ms``, producer closed) the
            remaining ones get the same error.

        Raises:
            InvalidRecordError: ``records`` is not an iterable of records; or a table lacks a column, has one of a wrong
                type, or has a partition that the topic lacks. Nothing was buffered.
            ImportError: ``records`` is a table, and pyarrow or numpy is not installed (extra ``arrow``).
        """
        self._buffer.check_loop()
        if is_table(records):
            parts = await self._tables.append(topic, records, partition)
        else:
            values = cast("Iterable[bytes | ProducerRecord]", records)
            parts = await append_all(self, self._buffer, topic, values, partition)
        for part in parts:
            for outcome in outcomes_of(part):
                await wait_done(outcome)
        return Outcomes(parts, self._accumulator.delivery_context)

    async def send_batch(
        self, topic: str, batch: SupportsRecordBatches | RecordBatch | Bytes, *, partition: int
    ) -> list[RecordMetadata]:
        """Write record batches without decoding them, and wait until they are acknowledged.

        The records are neither decompressed nor decoded: their bytes are sent unchanged behind a new header. Consumers
        read the same keys, values, headers and timestamps, in the same compression. Transactions are not copied: to
        leave out aborted records, read with ``isolation_level="read_committed"``.

        Cancelled, buffered batches are still delivered, and the others are never sent.

        Args:
            topic: The topic.
            batch: An item of :meth:`Consumer.batches() <aiokproto.consumer.Consumer.batches>`, a
                :class:`~aiokproto.records.RecordBatch`, or the bytes of one batch of magic 2. The bytes are copied.
                The checksum is verified here only if bytes are passed; otherwise the broker verifies it.
            partition: The partition. Its order holds for batches and single records together.

        Returns:
            The metadata of each batch's first record. The other records follow at consecutive offsets, unless the
            broker found the batch too large and it was split: then other producers' records may be in between. The
            timestamp is the batch's greatest, or the broker's if the topic has LogAppendTime.

        Raises:
            InvalidRecordError: A batch cannot be sent unchanged; nothing was buffered. It starts before the consumer's
                position, lacks records that compaction removed, has the broker's timestamps (LogAppendTime), is of
                magic 0 or 1 (use :meth:`send_many` for the records of these), or is a control batch.
            CorruptRecordError: The bytes are not one valid record batch. Nothing was buffered.
            UnsupportedCompressionError: A batch has an unknown codec. Nothing was buffered.
            MessageTooLargeError: A batch is larger than ``max_request_size`` or ``buffer_memory``, and nothing was
                buffered; or a single record is larger than the topic's ``max.message.bytes``.
            KafkaError: As for :meth:`send`. Some of several batches may have been written.
        """
        return await (await self.post_batch(topic, batch, partition=partition))

    async def post_batch(
        self, topic: str, batch: SupportsRecordBatches | RecordBatch | Bytes, *, partition: int
    ) -> BatchDelivery:
        """Buffer record batches without decoding them and without waiting for their acknowledgement.

        The arguments are those of :meth:`send_batch`. It suspends when :meth:`post` does. Cancelled, it has buffered
        the batches before the one that waited for memory.

        Returns:
            The delivery. Await it for the result, or drop it: a failure that is never retrieved is logged.

        Raises:
            KafkaError: As for :meth:`send_batch`, except for errors of the broker: the delivery raises those.
        """
        return BatchDelivery(await self._buffer.append_encoded(topic, partition, record_batches(batch)))

    async def partitions_for(self, topic: str) -> int:
        """Return the number of partitions of a topic, requesting its metadata if necessary.

        Raises:
            UnknownTopicError: The topic does not exist. Likewise InvalidTopicError and AuthorizationError.
            DeadlineError: There was no metadata within ``max_block_ms``.
            ClientClosedError: The producer is not started, is closed, or has failed.
        """
        return len((await self._buffer.topic(topic)).queues)

    @property
    def unobserved_failures(self) -> int:
        """Number of failed records in batches of which no delivery was awaited or checked."""
        return self._accumulator.delivery_context.unobserved_failures


def _check_timeout(timeout_ms: float | None) -> None:
    if timeout_ms is not None:
        seconds("timeout_ms", timeout_ms)


OPTIONS = tuple(name for name in signature(Producer).parameters if name != "connection")
"""The producer's own options, without those that all clients share."""
