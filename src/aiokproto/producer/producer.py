"""The face of the producer."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from inspect import signature
from types import TracebackType
from typing import TYPE_CHECKING, Literal, TypeVar

from aiokproto.cluster import Cluster
from aiokproto.config import ClusterConfig, ConnectionOptions
from aiokproto.errors import (
    BufferFullError,
    ClientClosedError,
    DeadlineError,
    KafkaError,
)
from aiokproto.producer.accumulator import Accumulator
from aiokproto.producer.batch import Batch, StoredBatch
from aiokproto.producer.bulk import SupportsArrow
from aiokproto.producer.call_order import CallOrder
from aiokproto.producer.delivery import Delivery
from aiokproto.producer.mirroring import Mirroring
from aiokproto.producer.outcome import Outcome
from aiokproto.producer.outcomes import Outcomes, outcomes_of
from aiokproto.producer.partitioner import Partitioner, check_partition
from aiokproto.producer.queue import PartitionQueue, TopicQueues
from aiokproto.producer.record import ProducerRecord, Unplaced
from aiokproto.producer.report import census, report, undelivered
from aiokproto.producer.sender import Sender
from aiokproto.producer.settings import BATCH_SIZE, Settings
from aiokproto.records import RecordBatch
from aiokproto.runtime import SYSTEM, current
from aiokproto.types import Header, RecordMetadata

if sys.version_info >= (3, 11):
    from asyncio import timeout_at
else:
    from async_timeout import timeout_at

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

T = TypeVar("T")

log = logging.getLogger("aiokproto.producer")

LONGEST_STRETCH = 0.001
"""How long (s) a task that never has to wait may keep the loop to itself."""


class Producer(Mirroring):
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
        **connection: Unpack[ConnectionOptions],
    ) -> None:
        """Check the options; nothing is opened before :meth:`start`.

        Args:
            acks: Who must have a record before it counts as written: "all" (or -1) the in-sync replicas, 1 the leader,
                0 nobody: then neither errors nor offsets are known.
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
            connection: What all clients take: see :class:`~aiokproto.config.ConnectionOptions`.

        Raises:
            ConfigurationError: An option is unknown or its value cannot be used.
        """
        self._settings = Settings.parse(
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
        )
        self._config = ClusterConfig.parse(connection, own=OPTIONS)
        self._accumulator = Accumulator(
            self._settings.limits,
            compression=self._settings.compression,
            level=self._settings.compression_level,
            choose=lambda partitions: current().random.choice(partitions),
        )
        super().__init__(self._settings.partitioner)
        self._closed: ClientClosedError | None = ClientClosedError("the producer is not started")
        self._cluster: Cluster
        self._sender: Sender
        self._running: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop
        self._yielded = 0.0
        self._turn = asyncio.Lock()
        self._order = CallOrder(self._order_changed)
        self._room = asyncio.Event()

    # -- life

    async def start(self) -> None:
        """Connect to the cluster; ``async with`` does it.

        Raises:
            BootstrapError: No bootstrap address can be used.
            AuthenticationError: The brokers refuse this client.
            DeadlineError: They do not answer.
            ClientClosedError: It was started before.
        """
        if self._running is not None:
            raise ClientClosedError("a producer is started once")
        self._loop = asyncio.get_running_loop()
        runtime = current()
        self._wall = None if runtime is SYSTEM else runtime.wall
        self._cluster = Cluster(self._config)
        try:
            await self._cluster.start()
        except BaseException:
            await self._cluster.close()
            raise
        self._sender = Sender(
            self._cluster, self._accumulator, self._settings, self._config.request_timeout, self._room.set
        )
        self._running = self._loop.create_task(self._run())
        self._closed = None

    async def _run(self) -> None:
        try:
            await self._sender.run()
        except Exception as cause:
            log.exception("the producer's sender has died")
            error = ClientClosedError(f"the producer's sender has died: {cause!r}")
            error.__cause__ = cause
            self._shut(error)
            self._accumulator.fail_all(lambda _: error)

    def _shut(self, why: ClientClosedError) -> None:
        """Take no more records; whoever waits to hand one over is told."""
        self._closed = self._closed or why
        self._known = {}
        self._room.set()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except KafkaError as undelivered:
            # What ended the block is the news; it must not be hidden by what follows from it.
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
        self._check_open()
        self._accumulator.hurry()
        self._sender.alarm.now()
        batches = list(self._accumulator.incomplete)
        await self._settled(batches, timeout_ms)
        if self._running is not None and self._running.done():
            self._check_open()
        pending = [batch for batch in batches if not batch.done]
        if pending:
            raise DeadlineError(f"flush: {census(pending)} without outcome after {timeout_ms} ms")

    async def close(self, timeout_ms: float | None = None) -> None:
        """Deliver what is buffered and disconnect. A second call does nothing.

        Cancelling it ends the waiting: what is not delivered by then fails, and the connections are closed.

        Args:
            timeout_ms: How long to wait for deliveries; None for as long as records may take
                (``delivery_timeout_ms``); 0 for not at all.

        Raises:
            DeadlineError: Some records were not delivered in time. The text says how many, of which partitions, and
                why; each of their deliveries raises as well.
            KafkaError: Some failed for other reasons meanwhile, and nobody waited for their deliveries.
        """
        if self._running is None or isinstance(self._closed, _Closing):
            return
        died, self._closed = self._closed, _Closing("the producer is closed")
        self._closed.__cause__ = died and died.__cause__
        self._shut(self._closed)
        batches = list(self._accumulator.incomplete)
        try:
            if died is None:
                self._accumulator.hurry()
                self._sender.alarm.now()
                await self._settled(batches, timeout_ms)
        finally:
            self._running.cancel()
            await asyncio.wait([self._running])
            lost = dict.fromkeys(self._accumulator.incomplete)
            self._accumulator.fail_all(undelivered)
            await self._cluster.close()
        lost.update(
            dict.fromkeys(batch for batch in batches if batch.outcome.error is not None and not batch.outcome.observed)
        )
        if lost:
            raise report(list(lost))

    async def _settled(self, batches: list[Batch], timeout_ms: float | None) -> None:
        """Wait until all ``batches`` have an outcome, or the deadline passes."""
        if not batches:
            return
        # None means the delivery timeout, which ends every batch; the second more is for the sender to see to that.
        limit = self._settings.limits.delivery_timeout + 1 if timeout_ms is None else timeout_ms / 1000
        left = len(batches)
        all_done: asyncio.Future[None] = self._loop.create_future()

        def one_done() -> None:
            nonlocal left
            left -= 1
            if not left and not all_done.done():
                all_done.set_result(None)

        for batch in batches:
            batch.outcome.when_done(one_done)
        try:
            await asyncio.wait([all_done], timeout=limit)
        finally:
            for batch in batches:
                batch.outcome.forget(one_done)
            all_done.cancel()

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
        placed = self._place(topic, value, key, headers, partition, timestamp)
        if not isinstance(placed, Delivery):
            placed = await self._wait_place(placed)
        where = await placed
        # Others have had their turn meanwhile.
        self._yielded = self._loop.time()
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
        placed = self._place(topic, value, key, headers, partition, timestamp)
        if isinstance(placed, Delivery):
            return placed
        self._check_open()
        queues = self._accumulator.topics.get(topic)
        if queues is None:
            raise BufferFullError(f"the metadata of topic {topic!r} is not known yet: await partitions_for() first")
        if self._order.waits(topic):
            raise BufferFullError(f"other calls wait to write to topic {topic!r}")
        delivery = None if self._turn.locked() else self._add(queues, placed)
        if delivery is None:
            raise BufferFullError(self._full())
        return delivery

    async def send_many(
        self,
        topic: str,
        records: Iterable[bytes | ProducerRecord] | SupportsArrow,
        *,
        partition: int | None = None,
    ) -> Outcomes:
        """Write records and wait until each has an outcome; none of their failures is raised.

        Cancelled, what was buffered is still delivered and the rest is never sent.

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
            InvalidRecordError: A table cannot be one of records, or names a partition the topic has not. Nothing of
                it was buffered.
            ImportError: ``records`` is a table, and pyarrow or numpy is missing: the ``arrow`` extra.
        """
        parts = await self._place_all(topic, records, partition)
        for part in parts:
            for outcome in outcomes_of(part):
                if not outcome.done:
                    await outcome.wait()
        return Outcomes(parts)

    async def partitions_for(self, topic: str) -> int:
        """How many partitions a topic has, asking the cluster if need be.

        Raises:
            UnknownTopicError: There is no such topic; likewise InvalidTopicError, AuthorizationError.
            DeadlineError: No answer within ``max_block_ms``.
            ClientClosedError: The producer is not open.
        """
        return len((await self._topic(topic)).queues)

    @property
    def unobserved_failures(self) -> int:
        """How many records of :meth:`post` and :meth:`try_post` failed without anybody asking for their outcome."""
        return self._accumulator.losses.records

    # -- into the accumulator

    def _add(self, queues: TopicQueues, record: Unplaced) -> Delivery | None:
        """Write a record that needs a new batch or a larger one; None if the budget has no room for it."""
        now = self._loop.time()
        _, partition, timestamp, key, value, headers = record
        added = self._accumulator.append(queues, partition, timestamp, key, value, headers, now)
        if added is None or self._accumulator.has_ready:
            self._sender.alarm.now()
        else:
            self._sender.alarm.at(now + self._settings.limits.linger)
        if added is None:
            return None
        batch, index = added
        return Delivery(batch.outcome, index, timestamp)

    async def _place_stored(
        self, topic: str, batches: Sequence[RecordBatch], partition: int
    ) -> list[tuple[Outcome, int]]:
        self._check_open()
        deadline = self._loop.time() + self._settings.max_block
        with self._order.entered(topic) as turn:
            queues = await self._topic(topic)
            queue = queues.queues[check_partition(partition, topic, len(queues.queues))]
            for one in batches:
                self._accumulator.check_size(one, queue.where)
            placed: list[tuple[Outcome, int]] = []
            await self._until(turn(), deadline)
            for one in batches:
                await self._let_others()
                self._check_open()
                added = await self._when_room(partial(self._add_stored, queue, one), deadline)
                placed.append((added.outcome, one.max_timestamp))
            return placed

    def _add_stored(self, queue: PartitionQueue, stored: RecordBatch) -> StoredBatch | None:
        """Copy a batch; None if the budget has no room for it."""
        added = self._accumulator.append_stored(queue, stored, self._loop.time())
        self._sender.alarm.now()
        return added

    async def _wait_place(self, record: Unplaced) -> Delivery:
        """Write a record as soon as its topic is known and there is room, in the order of the calls."""
        self._check_open()
        queues = self._known.get(record.topic)
        if queues is not None and not self._turn.locked() and not self._is_others_turn():
            placed = self._add(queues, record)
            if placed is not None:
                return placed
        deadline = self._loop.time() + self._settings.max_block
        with self._order.entered(record.topic) as turn:
            # Before the record is written, so that cancelling here still means that it is never sent.
            await self._let_others()
            queues = await self._topic(record.topic)
            await self._until(turn(), deadline)
            self._check_open()
            record = record._replace(partition=self._choose(queues, record.partition, record.key, record.value))
            return await self._when_room(partial(self._add, queues, record), deadline)

    async def _until(self, turn: Awaitable[None], deadline: float) -> None:
        try:
            async with timeout_at(deadline):
                await turn
        except asyncio.TimeoutError:
            raise self._no_room() from None

    async def _let_others(self) -> None:
        """Let other tasks have their turn of the loop, if this one never had to wait for long enough."""
        if self._is_others_turn():
            await asyncio.sleep(0)
            self._yielded = self._loop.time()

    def _is_others_turn(self) -> bool:
        return self._loop.time() - self._yielded > LONGEST_STRETCH

    async def _when_room(self, add: Callable[[], T | None], deadline: float) -> T:
        """What ``add`` gives as soon as there is room for it, in the order of those who wait."""
        added = None if self._turn.locked() else add()
        if added is not None:
            return added
        try:
            async with timeout_at(deadline), self._turn:
                while True:
                    self._check_open()
                    added = add()
                    if added is not None:
                        return added
                    self._room.clear()
                    await self._room.wait()
        except asyncio.TimeoutError:
            raise self._no_room() from None

    def _no_room(self) -> DeadlineError:
        return DeadlineError(f"no room within max_block_ms={self._settings.max_block * 1000:g}: {self._full()}")

    def _full(self) -> str:
        return f"{self._accumulator.used} of buffer_memory={self._settings.limits.buffer_memory} bytes are in use"

    async def _topic(self, topic: str) -> TopicQueues:
        self._check_open()
        return self._accumulator.topics.get(topic) or await self._learn(topic, self._settings.max_block)

    async def _learn(self, topic: str, timeout: float) -> TopicQueues:
        # As every Kafka producer: whether a topic is made by writing to it is for the brokers' configuration to say.
        info = await self._cluster.topic(topic, timeout, create=True)
        snapshot = self._cluster.snapshot
        queues = self._accumulator.update(topic, [snapshot.leader(topic, n) for n in range(len(info.partitions))])
        self._order_changed(topic)
        return queues

    def _order_changed(self, topic: str) -> None:
        """Have calls write at once that need not wait: to topics that are known and that no other call waits for."""
        queues = self._accumulator.topics.get(topic)
        if self._closed is None and queues is not None and not self._order.waits(topic):
            self._known[topic] = queues
        elif self._known.pop(topic, None) is not None:
            # Assigned, as the compiled form remembers what it has found there last.
            self._known = self._known

    def _check_open(self) -> None:
        if self._closed is not None:
            raise self._closed.with_traceback(None)


OPTIONS = tuple(name for name in signature(Producer).parameters if name != "connection")
"""The producer's own options; it takes those of a connection besides."""


class _Closing(ClientClosedError):
    """The producer was closed by its user."""
