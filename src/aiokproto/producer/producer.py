"""The producer's public API. See the package for the theory."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Iterable, Sequence
from inspect import signature
from types import TracebackType
from typing import TYPE_CHECKING, Literal, cast

from aiokproto.cluster import ClusterClient
from aiokproto.config import ClusterConfig, ConnectionOptions
from aiokproto.errors import ClientClosedError, DeadlineError, KafkaError
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
"""Seconds that disconnecting may take where closing has no deadline of its own."""


class Producer(RecordAppender):
    """Writes records to topics.

    ::

        async with Producer(bootstrap_servers="localhost:9092") as producer:
            where = await producer.send("flights", b"UA 901", key=b"UA")

    Three ways to write: :meth:`send` waits until the record is acknowledged; :meth:`post` until it is buffered;
    :meth:`try_post` for nothing. :meth:`send_many` writes many records at the price per record of :meth:`post`.
    :meth:`send_batch` and :meth:`post_batch` write batches that were fetched, as they are.

    Records of one partition stay in the order they were given, also through retries. Without idempotence this takes
    ``max_in_flight_requests_per_connection=1``, and a retry may then write a record twice.

    One producer serves any number of tasks of one event loop. It is bound to the loop by :meth:`start`.
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
        """Check the options; nothing is opened before :meth:`start`.

        Args:
            acks: Who must have a record before it counts as written: "all" (or -1) the in-sync replicas, 1 the leader,
                0 none: then neither errors nor offsets are known.
            enable_idempotence: Whether brokers drop what a retry sends twice (KIP-98). It needs ``acks="all"`` and
                ``max_in_flight_requests_per_connection`` of at most 5. None: on if these allow it.
            linger_ms: How long a batch waits for more records.
            batch_size: Bytes, before compression, at which a batch is sent; ``max_request_size`` bounds it.
            buffer_memory: Bytes that buffered records may take; when they do, :meth:`post` waits.
            compression_type: The codec of batches.
            compression_level: gzip 1 to 9, lz4 1 to 16, zstd -131072 to 22; None for the codec's default.
            max_request_size: Bytes, before compression, of the largest record and the largest request.
            delivery_timeout_ms: How long a record may take from buffer to acknowledgement, all retries included.
            max_in_flight_requests_per_connection: Unanswered requests for each broker.
            partitioner: "default" places keys as all Kafka clients do (murmur2), and records without a key where a
                batch is being filled (KIP-480); or a :class:`Partitioner`.
            max_block_ms: How long a call may wait for the topic's metadata and for room in the buffer.
            close_timeout_ms: How long :meth:`close`, and leaving ``async with``, may take; None for as long as records
                may take (``delivery_timeout_ms``).
            connection: What all clients take: see :class:`~aiokproto.config.ConnectionOptions`.

        Raises:
            ConfigurationError: An option is unknown or its value cannot be used.
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

    # -- life

    async def start(self) -> None:
        """Connect to the cluster; ``async with`` does it.

        Raises:
            BootstrapError: No bootstrap address can be used.
            AuthenticationError: The brokers refuse this client.
            DeadlineError: They do not answer.
            ClientClosedError: The producer was started before, or is closed meanwhile.
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
        """Send what is buffered without lingering, and wait until each record of it has an outcome, good or bad.

        Cancelling it changes nothing for the records.

        Args:
            timeout_ms: How long to wait; None for as long as records may take (``delivery_timeout_ms``).

        Raises:
            DeadlineError: Some have none in time; they are still being delivered.
            ClientClosedError: The producer is not open.
        """
        self._buffer.check_open()
        batches = self._send_all()
        await self._wait(batches, timeout_ms)
        pending = [batch for batch in batches if not batch.done]
        if pending:
            waited = self._settings.limits.delivery_timeout * 1000 if timeout_ms is None else timeout_ms
            raise DeadlineError(f"flush: {summary(pending)} without outcome after {waited:g} ms")
        if not self._closing:
            self._buffer.check_open()

    def _send_all(self) -> list[ProducerBatch]:
        """Send what is buffered without lingering; returns it."""
        self._accumulator.end_linger()
        if self._sender is not None:
            self._sender.timer.call_soon()
        return list(self._accumulator.incomplete)

    async def _wait(self, batches: list[ProducerBatch], timeout_ms: float | None) -> None:
        """Wait until batches have an outcome, or a timeout passes."""
        # None means the delivery timeout, which ends every batch; the second more is for the sender to see to that.
        timeout = self._settings.limits.delivery_timeout + 1 if timeout_ms is None else timeout_ms / 1000
        await wait_all([batch.outcome for batch in batches], timeout)

    async def close(self, timeout_ms: float | None = None) -> None:
        """Deliver what is buffered and disconnect. A second call does nothing.

        Cancelling it ends the waiting: what is not delivered by then fails, and the connections are closed.

        Args:
            timeout_ms: How long to wait for deliveries, and for the connections to be flushed; 0 for not at all. None
                for ``close_timeout_ms``, and if that is None too, for as long as records may take
                (``delivery_timeout_ms``). What it waits for is logged after a second.

        Raises:
            DeadlineError: Some records were not delivered in time. The text says how many, of which partitions, and
                why; each of their deliveries raises as well.
            KafkaError: Some failed for other reasons meanwhile, and no task awaited their deliveries.
        """
        self._buffer.check_loop()
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
        # Not closed and not even started: the options may have been refused.
        if getattr(self, "_sender", None) is not None and not self._closing:
            unsent = self._unsent + sum(batch.count for batch in self._accumulator.incomplete)
            warnings.warn(f"unclosed Producer, {unsent} records unsent", ResourceWarning, source=self, stacklevel=1)

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
        """Write a record and wait until it is acknowledged as ``acks`` demands.

        Cancelled before the record is buffered, it is never sent; after, it is still delivered.

        Args:
            topic: The topic.
            value: The value; None is a tombstone.
            key: The key; records of one key go to one partition.
            headers: Keys and values, in order; keys may repeat.
            partition: The partition; None leaves it to the partitioner.
            timestamp: Milliseconds since the epoch; None for now.

        Returns:
            Where the record is.

        Raises:
            InvalidRecordError: The record cannot be sent as it is.
            MessageTooLargeError: It is larger than ``max_request_size`` here, or than the topic allows.
            UnknownTopicError: There is no such topic; likewise InvalidTopicError, AuthorizationError.
            DeadlineError: No metadata or room within ``max_block_ms``, or no acknowledgement within
                ``delivery_timeout_ms``: in that case it may be written or not.
            BrokerError: The broker refused it.
            ClientClosedError: The producer is not open.
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
        """Buffer a record now or not at all: :meth:`post` for where nothing can be awaited.

        Takes what :meth:`send` does. It must be called in the loop's thread. A task that posts so and never suspends
        keeps the loop from sending.

        Raises:
            BufferFullError: The buffer is full, others wait for room, or the topic's metadata is not known yet:
                :meth:`partitions_for`, or any other write to the topic, asks for it.
            KafkaError: As :meth:`post`.
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
        """Write records and wait until each has an outcome; none of their failures is raised.

        The records are buffered one after the other, as by as many calls: what other tasks write meanwhile may come
        between them. Cancelled, what was buffered is still delivered and the rest is never sent.

        Args:
            topic: The topic.
            records: Values, or :class:`ProducerRecord` for those with a key, headers and so on. Or a table: of pyarrow,
                or anything that speaks its PyCapsule protocol (Polars, pandas, DuckDB). It has a column ``value``, and
                what is wanted of ``key``, ``headers``, ``timestamp`` and ``partition``: see
                :func:`~aiokproto.records.rows.from_arrow`. Its rows are written without a Python object for each.
            partition: The partition of records that name none.

        Returns:
            For each record, in order, where it is or why it is not written. Once no record can be buffered any more
            (unknown topic, no room within ``max_block_ms``, producer closed), the rest get that error untried.

        Raises:
            InvalidRecordError: ``records`` is not an iterable of records; or a table lacks a column, or names a
                partition that the topic does not have. Nothing was buffered.
            ImportError: ``records`` is a table, and pyarrow or numpy is missing: the ``arrow`` extra.
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
        return Outcomes(parts)

    async def send_batch(
        self, topic: str, batch: SupportsRecordBatches | RecordBatch | Bytes, *, partition: int
    ) -> list[RecordMetadata]:
        """Write record batches as they are, and wait until they are acknowledged as ``acks`` demands.

        The records are neither decompressed nor decoded: their bytes are sent unchanged, under a new header. A
        consumer of the copy reads the same keys, values, headers and timestamps, compressed as they were. Transactions
        are not copied: to leave out aborted records, read with ``isolation_level="read_committed"``.

        Cancelled, what was buffered is still delivered and the rest is never sent.

        Args:
            topic: The topic.
            batch: What :meth:`Consumer.batches() <aiokproto.consumer.Consumer.batches>` yields, a
                :class:`~aiokproto.records.RecordBatch`, or the bytes of one of magic 2. It is copied. Only for bytes
                the checksum is verified; of others it is copied, and the broker verifies it.
            partition: The partition; the order is kept with all else that is written there.

        Returns:
            For each record batch where its first record is. The others have the offsets that follow, unless the broker
            found the batch too large and it was divided: then what others wrote may be between. The timestamp is
            the batch's greatest, or the broker's where the topic has LogAppendTime.

        Raises:
            InvalidRecordError: A batch cannot be sent as it is, and nothing was buffered. :meth:`send_many` is for the
                records of one that begins before what the consumer asked for, lacks records that compaction removed,
                has timestamps that a broker set (LogAppendTime), or is of magic 0 or 1. Control batches are for
                brokers alone.
            CorruptRecordError: The bytes are no sound record batch. Nothing was buffered.
            UnsupportedCompressionError: The codec of a batch is unknown. Nothing was buffered.
            MessageTooLargeError: A batch is larger than ``max_request_size`` or ``buffer_memory``, and nothing was
                buffered; or than the topic allows, and its only record alone is.
            KafkaError: As :meth:`send`. Of several record batches, some may be written.
        """
        return await (await self.post_batch(topic, batch, partition=partition))

    async def post_batch(
        self, topic: str, batch: SupportsRecordBatches | RecordBatch | Bytes, *, partition: int
    ) -> BatchDelivery:
        """Buffer record batches as they are, without waiting for the acknowledgement as :meth:`send_batch` does.

        Takes what :meth:`send_batch` does, and suspends as :meth:`post`. Cancelled, it has buffered all that comes
        before the batch it was waiting with.

        Returns:
            The delivery, to await or to drop: a failure that is never retrieved is logged.

        Raises:
            KafkaError: As :meth:`send_batch`, except for errors of the broker: the delivery raises these.
        """
        return BatchDelivery(await self._buffer.append_encoded(topic, partition, record_batches(batch)))

    async def partitions_for(self, topic: str) -> int:
        """Return the number of partitions of a topic, requesting its metadata if necessary.

        Raises:
            UnknownTopicError: There is no such topic; likewise InvalidTopicError, AuthorizationError.
            DeadlineError: No answer within ``max_block_ms``.
            ClientClosedError: The producer is not open.
        """
        return len((await self._buffer.topic(topic)).queues)

    @property
    def unobserved_failures(self) -> int:
        """How many records of :meth:`post` and :meth:`try_post` failed in batches of which no outcome was asked for."""
        return self._accumulator.delivery_context.unobserved_failures


OPTIONS = tuple(name for name in signature(Producer).parameters if name != "connection")
"""The producer's own options; it takes those of a connection besides."""
