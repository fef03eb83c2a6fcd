"""Where calls wait before their record is appended: for metadata, for memory, and for earlier calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from aiokproto.application.gates import Home
from aiokproto.cluster import ClusterClient, ClusterSnapshot
from aiokproto.errors import (
    BufferFullError,
    ClientClosedError,
    ConfigurationError,
    DeadlineError,
    InvalidRecordError,
    KafkaError,
    MessageTooLargeError,
    RecordAbortedError,
)
from aiokproto.interceptors import NO_INTERCEPTORS, Interceptors
from aiokproto.net.timer import Timer
from aiokproto.producer.accumulator import Accumulator
from aiokproto.producer.append_order import AppendOrder
from aiokproto.producer.appender import RecordAppender
from aiokproto.producer.batch import EncodedBatch, ProducerBatch
from aiokproto.producer.config import ProducerConfig
from aiokproto.producer.delivery import Delivery
from aiokproto.producer.outcome import Outcome
from aiokproto.producer.partitioner import check_partition
from aiokproto.producer.queue import PartitionQueue, TopicQueues
from aiokproto.producer.record import PendingRecord, check_topic
from aiokproto.records import RecordBatch
from aiokproto.runtime import SYSTEM, current, thread_id
from aiokproto.runtime.timeouts import Interruptible, timeout_at

if TYPE_CHECKING:
    from aiokproto.producer.sender import Sender
    from aiokproto.producer.transaction_manager import TransactionManager

T = TypeVar("T")

MAX_TOPICS = 10_000
"""Most topics that are remembered, but for those in the metadata, and what waits."""

MAX_LOOP_HOLD = 0.001
"""Longest time a task posts records without letting other tasks run (s): the sender needs the event loop too."""


class WriteSession:
    """The right to append: of the producer, or of one of its transactions.

    Attributes:
        closed: The error that its calls raise; None while it may append.
        transactions: Learns which records were not buffered; None for the producer's own session, whose calls raise
            the error and nothing else follows.
    """

    __slots__ = ("closed", "transactions")

    def __init__(self, closed: KafkaError | None = None, transactions: TransactionManager | None = None) -> None:
        self.closed = closed
        self.transactions = transactions

    def missing(self, error: KafkaError) -> None:
        """Note that a record was not buffered. Not of a wrong call, or one that can be repeated at once."""
        wrong = isinstance(error, InvalidRecordError) and not isinstance(error, MessageTooLargeError)
        if self.transactions is not None and not wrong and not isinstance(error, BufferFullError | ConfigurationError):
            self.transactions.record_missing(self, error)


class Buffer:
    """Appends to the accumulator in the order of the calls, waiting where necessary.

    One writer at a time appends without it (:class:`RecordAppender`): the producer or its open transaction. Only topics
    in the writer's ``_ready_topics`` can be appended to that way, so emptying these is what stops a writer.

    Attributes:
        accumulator: The batches.
        closed: The error that every call raises; None while it is open.
        interceptors: Called for each record.
        home: Where the producer was started.
    """

    def __init__(
        self, accumulator: Accumulator, settings: ProducerConfig, interceptors: Interceptors = NO_INTERCEPTORS
    ) -> None:
        self.accumulator = accumulator
        self.interceptors = interceptors
        self.closed: KafkaError | None = ClientClosedError(
            "the producer is not started: use async with, or await start()"
        )
        # Who may append without this class; set once the producer is open, replaced by each transaction.
        self._writer: RecordAppender[Any, Any] | None = None
        # guard: a forked child appends nothing to the open batches of its parent -> Home("producer")
        self.home = Home("producer", self._stop_writer)
        self._linger = settings.limits.linger
        self._max_block = settings.max_block
        self._memory = settings.limits.buffer_memory
        self._rack_aware = settings.rack_aware
        self._cluster: ClusterClient
        # Runs Sender._run_once().
        self._timer: Timer
        self._session: WriteSession
        self._loop: asyncio.AbstractEventLoop
        # When the running task last let others run; 0.0 makes the first slow append yield.
        self._yielded = 0.0
        # Calls that wait for memory take turns: the oldest gets the first free bytes, or small records would starve a
        # large one for ever.
        self._turn = asyncio.Lock()
        self._order = AppendOrder(self)
        # Set when batches get their outcome; cleared by the one call that holds the turn.
        self._room = asyncio.Event()
        # Topic ids of the last applied metadata: a new id under the same name is a new topic (KIP-516).
        self._ids: dict[str, bytes] = {}
        # The snapshot that was last applied to each topic.
        self._generations: dict[str, int] = {}
        self._waiting_calls = Interruptible()

    def open(self, cluster: ClusterClient, sender: Sender) -> None:
        """Accept records from now on; call this in the running loop.

        Args:
            cluster: Source of the metadata.
            sender: Its timer is scheduled when there is something to send.
        """
        self.home.enter()
        self._loop = self.accumulator.delivery_context.loop = asyncio.get_running_loop()
        self._cluster = cluster
        self._timer = sender.timer
        self.closed = None

    def set_writer(self, writer: RecordAppender[Any, Any], session: WriteSession) -> None:
        """Let ``writer`` append without waiting, and no other. Its topics become ready with their first records."""
        self._stop_writer()
        runtime = current()
        writer._milliseconds = None if runtime is SYSTEM else runtime.milliseconds
        writer._thread = thread_id()
        self._writer, self._session = writer, session

    def _stop_writer(self) -> None:
        if self._writer is not None:
            for topic in list(self._writer._ready_topics):
                self._writer._set_ready(topic, None)

    def close_session(self, session: WriteSession, why: KafkaError) -> None:
        """Accept no more records of a session; its waiting calls raise ``why``."""
        session.closed = why
        if session is self._session:
            self._stop_writer()
        # Wakes the call that waits for memory, which finds the error in check_open().
        self._room.set()

    def close(self, why: KafkaError) -> None:
        """Accept no more records; waiting calls raise ``why``."""
        self.closed = why
        # Records take the slow path from here on, where check_open() raises `why`.
        self._stop_writer()
        self._room.set()

    def check_open(self, session: WriteSession | None = None) -> None:
        """Raise if the producer cannot be used here, or if the session has ended.

        Raises:
            ConfigurationError: The running event loop is not the producer's.
            KafkaError: The producer is not started, is closed, or has failed; or what ended the session.
        """
        if self.closed is None:
            # The gate; see aiokproto.application.gates.
            self.check_loop()
            self._cluster.check()
            if session is not None and session.closed is not None:
                # Raised by many calls: without this each would add its frames to the one instance.
                raise session.closed.with_traceback(None)
            return
        self.check_loop()
        raise self.closed.with_traceback(None)

    def check_loop(self) -> None:
        """Raise ConfigurationError if the running event loop is not the producer's."""
        self.home.check()

    def send_all(self) -> list[ProducerBatch]:
        """End the linger of all batches, and return those without an outcome."""
        self.accumulator.end_linger()
        self._timer.call_soon()
        return list(self.accumulator.incomplete)

    @property
    def is_short_of_memory(self) -> bool:
        """Whether calls wait for memory."""
        return self._turn.locked()

    def abort(self) -> int:
        """Make the calls that wait raise RecordAbortedError; return how many there were."""
        return self._waiting_calls.interrupt()

    def memory_freed(self) -> None:
        """Wake the calls that wait for memory: batches are done."""
        self._room.set()

    def task_has_waited(self) -> None:
        """Note that the running task has waited, so other tasks could run."""
        self._yielded = self._loop.time()

    # -- records

    async def append(self, session: WriteSession, record: PendingRecord) -> Delivery:
        """Append a record once its topic is known and memory is free, in the order of the calls."""
        try:
            self.check_open(session)
            assert self._writer is not None, "an open session has a writer"
            now = self._loop.time()
            queues = self._writer._ready_topics.get(record.topic)
            # The common slow path: the open batch is full and the next one can be opened at once. MAX_LOOP_HOLD bounds
            # how long a task can stay here without letting the sender run.
            # A locked turn means that an earlier call waits for memory: small records must not take what it waits for.
            if queues is not None and not self._turn.locked() and now - self._yielded <= MAX_LOOP_HOLD:
                appended = self._add(queues, record, now)
                if appended is not None:
                    return appended
            deadline = now + self._max_block
            # Entered before the first await: from here on no later call can come before this one.
            with self._order.entered(record.topic) as turn:
                async with self._waiting_calls.scope(_aborted):
                    # Yield before the record is appended: a call cancelled here has not sent anything.
                    await self._yield_to_others()
                    # Not under the deadline: it has max_block_ms of its own, and its error names the metadata.
                    queues = await self.topic(record.topic)
                    await self._until(turn, deadline)
                    # The producer may have been closed, or the transaction ended, during the waits.
                    self.check_open(session)
                    # Chosen only now: the number of partitions may have changed while the call waited.
                    chosen = self._writer._choose_partition(queues, record.partition, record.key, record.value)
                    record = record._replace(partition=chosen)
                    return await self._when_memory_free(
                        session, lambda: self._add(queues, record, self._loop.time()), deadline
                    )
        except KafkaError as error:
            session.missing(error)
            raise

    def try_append(self, session: WriteSession, record: PendingRecord) -> Delivery:
        """Append a record without waiting.

        Raises:
            BufferFullError: The call would have to wait.
        """
        try:
            self.check_open(session)
            # Not _ready_topics: that lacks topics for other reasons too, each of which has an error of its own here.
            queues = self.accumulator.topics.get(record.topic)
            if queues is None:
                # Else it would be tried again for ever.
                check_topic(record.topic)
                raise BufferFullError(
                    f"the metadata of topic {record.topic!r} is not known yet: await partitions_for() first"
                )
            if self._order.waits(record.topic):
                raise BufferFullError(f"other calls wait to write to topic {record.topic!r}")
            delivery = None if self._turn.locked() else self._add(queues, record, self._loop.time())
            if delivery is None:
                raise BufferFullError(self._full())
            return delivery
        except KafkaError as error:
            session.missing(error)
            raise

    def _add(self, queues: TopicQueues, record: PendingRecord, now: float) -> Delivery | None:
        """Append a record that needs a new or a larger batch; None if memory is short."""
        _, partition, timestamp, key, value, headers = record
        if partition is not None:
            # Checked again: while the record waited, the topic may have been created again with fewer partitions.
            check_partition(partition, queues.name, len(queues.queues))
        added = self.accumulator.append(queues, partition, timestamp, key, value, headers, now)
        if added is None or self.accumulator.has_ready:
            self._timer.call_soon()
        else:
            self._timer.call_at(now + self._linger)
        if added is None:
            return None
        batch, index = added
        return Delivery(batch.outcome, index, timestamp)

    # -- encoded batches

    async def append_encoded(
        self, session: WriteSession, topic: str, partition: int, batches: Sequence[RecordBatch]
    ) -> list[tuple[Outcome, int]]:
        """Append encoded batches once memory is free; return each one's outcome and greatest timestamp."""
        try:
            self.check_open(session)
            deadline = self._loop.time() + self._max_block
            with self._order.entered(topic) as turn:
                async with self._waiting_calls.scope(_aborted):
                    queues = await self.topic(topic)
                    where = _queue(queues, partition).where
                    for one in batches:
                        # All are checked before the first is appended: either every batch can be sent or none is.
                        self.accumulator.check_size(one, where)
                    # Behind earlier calls, but its own batches are appended without giving up the place: nothing comes
                    # between them.
                    await self._until(turn, deadline)
                    appended: list[tuple[Outcome, int]] = []
                    for one in batches:
                        # Here and not between check_open() and add(): what was checked must still hold.
                        await self._yield_to_others()
                        self.check_open(session)
                        add = partial(self._add_encoded, queues, partition, one)
                        batch = await self._when_memory_free(session, add, deadline)
                        appended.append((batch.outcome, one.max_timestamp))
                    return appended
        except KafkaError as error:
            session.missing(error)
            raise

    def _add_encoded(self, queues: TopicQueues, partition: int, stored: RecordBatch) -> EncodedBatch | None:
        """Append a copy of an encoded batch; None if memory is short."""
        added = self.accumulator.append_encoded(_queue(queues, partition), stored, self._loop.time())
        self._timer.call_soon()
        return added

    # -- waiting

    async def topic(self, name: str) -> TopicQueues:
        """Return a topic's queues, requesting its metadata if necessary."""
        check_topic(name)
        self.check_open()
        # A topic that was written to can be missing from the snapshot: it expired, or was deleted. Then it is requested
        # again.
        if name not in self.accumulator.topics or name not in self._cluster.snapshot.topics:
            # Brokers may be configured to create a topic that is written to (auto.create.topics.enable).
            await self._cluster.topic(name, self._max_block, create=True, keep=False)
            # Once per snapshot: thousands of calls can have waited for a topic with thousands of partitions.
            if self._generations.get(name) != self._cluster.snapshot.generation:
                self._update_topic(name, self._cluster.snapshot)
        return self.accumulator.topics[name]

    def update_topics(self, snapshot: ClusterSnapshot) -> None:
        """Apply new cluster metadata to all topics that were written to."""
        for name in list(self.accumulator.topics):
            self._update_topic(name, snapshot)

    def _update_topic(self, name: str, snapshot: ClusterSnapshot) -> None:
        self._generations[name] = snapshot.generation
        info = snapshot.topics.get(name)
        if info is None:
            # Deleted, or expired from the metadata. A call that waits has its queues.
            if self._may_forget(name) and not self._order.waits(name) and self.accumulator.forget(name):
                self._ids.pop(name, None)
                del self._generations[name]
            else:
                self.accumulator.clear_leaders(name, self._loop.time())
        else:
            if self._rack_aware:
                rack = self._cluster.config.client_rack
                local = frozenset(node.id for node in snapshot.brokers.values() if node.rack == rack)
                self.accumulator.sticky.local_nodes = local
            leaders = [snapshot.leader(name, number) for number in range(len(info.partitions))]
            # The ids are compared before they are replaced below.
            recreated = bool(snapshot.recreated(self._topic_ids(name)))
            self.accumulator.update(name, leaders, self._loop.time(), recreated=recreated)
            self._ids[name] = info.topic_id
            # Batches of removed partitions have failed, which freed memory.
            self.memory_freed()
        self.order_changed(name)

    def _may_forget(self, name: str) -> bool:
        # One that was merely not used for long can be written to without a wait: of these only the oldest of very many.
        return bool(self._cluster.metadata.absent([name])) or len(self.accumulator.topics) > MAX_TOPICS

    def _topic_ids(self, name: str) -> dict[str, bytes]:
        return {name: self._ids[name]} if name in self._ids else {}

    def order_changed(self, topic: str) -> None:
        """Allow or forbid appending without :class:`Buffer`: only to a known topic that no call waits to append to."""
        # All conditions of the synchronous path in one place; whatever changes one of them calls this.
        queues = self.accumulator.topics.get(topic)
        is_open = self.closed is None and self._session.closed is None
        # guard: no call overtakes one that waits -> is_open and topic in self._cluster.snapshot.topics
        ready = is_open and not self._order.waits(topic) and topic in self._cluster.snapshot.topics
        if self._writer is not None:
            self._writer._set_ready(topic, queues if ready else None)

    async def _until(self, turn: Awaitable[None], deadline: float) -> None:
        try:
            async with timeout_at(deadline):
                await turn
        except asyncio.TimeoutError:
            raise self._memory_timeout() from None

    async def _yield_to_others(self) -> None:
        """Let other tasks run if this one has not waited for :data:`MAX_LOOP_HOLD`."""
        if self._loop.time() - self._yielded > MAX_LOOP_HOLD:
            await asyncio.sleep(0)
            self.task_has_waited()

    async def _when_memory_free(self, session: WriteSession, add: Callable[[], T | None], deadline: float) -> T:
        """Call ``add`` until it returns a result, which it does once memory is free; waiting calls proceed in order."""
        # While another call waits for memory, this one queues behind it.
        # The free path takes no lock: acquiring one would cost each record an await.
        added = None if self._turn.locked() else add()
        if added is not None:
            return added
        try:
            # asyncio.Lock wakes in the order of arrival.
            async with timeout_at(deadline), self._turn:
                while True:
                    # Checked after each wait: closing sets _room too.
                    self.check_open(session)
                    added = add()
                    if added is not None:
                        return added
                    # Cleared after the failed attempt and before the wait, with no await between: a release cannot be
                    # missed.
                    self._room.clear()
                    await self._room.wait()
        except asyncio.TimeoutError:
            raise self._memory_timeout() from None

    def _memory_timeout(self) -> DeadlineError:
        return DeadlineError(f"no memory free within max_block_ms={self._max_block * 1000:g}: {self._full()}")

    def _full(self) -> str:
        return f"{self.accumulator.used} of buffer_memory={self._memory} bytes are in use"


def _aborted() -> RecordAbortedError:
    return RecordAbortedError("abort() was called before the record was buffered")


def _queue(queues: TopicQueues, partition: int) -> PartitionQueue:
    return queues.queues[check_partition(partition, queues.name, len(queues.queues))]
