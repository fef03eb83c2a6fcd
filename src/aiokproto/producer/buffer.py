"""Where calls wait before their record is appended: for metadata, for memory, and for earlier calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
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
"""Maximum number of topics to remember, besides topics in the metadata and topics with batches or waiting calls."""

MAX_LOOP_HOLD = 0.001
"""Maximum time (s) for which a task posts records without letting other tasks run: the sender needs the loop too."""

Waiter = asyncio.Future[None]
"""Done when the call is the first in its topic's queue."""


class WriteSession:
    """The right to append, held by the producer or by one of its transactions.

    Attributes:
        close_error: The error that its calls raise; None while it may append.
        transactions: Notified of records that weren't buffered. None for the producer's own session, where calls merely
            raise the error.
    """

    __slots__ = ("close_error", "transactions")

    def __init__(self, close_error: KafkaError | None = None, transactions: TransactionManager | None = None) -> None:
        self.close_error = close_error
        self.transactions = transactions

    def missing(self, error: KafkaError) -> None:
        """Note that a record wasn't buffered. This ignores wrong calls, and calls that can be repeated at once."""
        wrong = isinstance(error, InvalidRecordError) and not isinstance(error, MessageTooLargeError)
        if self.transactions is not None and not wrong and not isinstance(error, BufferFullError | ConfigurationError):
            self.transactions.record_missing(self, error)


class AppendOrder:
    """A FIFO queue per topic of calls that can't append at once.

    A call waits for its topic's metadata, for memory, or for other tasks to run. No later call appends to the topic
    before it. So records are in the log in the order of the calls, even if different tasks make the calls.

    A call enters the queue before it waits for anything. Calls wait for metadata concurrently. Only then does each call
    wait until it's the first, and it stays the first until it leaves.
    """

    def __init__(self, buffer: Buffer) -> None:
        """``buffer`` is notified when the first call enters a topic's queue, and when the last call has left."""
        self._buffer = buffer
        # This dict serves as an ordered set: a cancelled call leaves from the middle in constant time.
        self._calls: dict[str, dict[Waiter, None]] = {}

    def waits(self, topic: str) -> bool:
        """Whether a call waits to append to this topic."""
        return topic in self._calls

    @contextmanager
    def entered(self, topic: str) -> Iterator[Waiter]:
        """Be in the topic's queue while the block runs. Await the yielded value to wait until this call is the first.

        Cancelling leaves the queue, and lets the next call proceed.
        """
        call: Waiter = asyncio.get_running_loop().create_future()
        calls = self._calls.setdefault(topic, {})
        calls[call] = None
        # The first call has its turn at once; it still has to wait for metadata or memory.
        # guard: the calls of a new topic keep their order -> True
        if len(calls) == 1:
            call.set_result(None)
            # This closes the synchronous path to the topic, or a later record would overtake this one.
            self._buffer.order_changed(topic)
        try:
            # Only one task awaits it, so cancelling that task doesn't cancel a future of another task.
            yield call
        finally:
            del calls[call]
            if not calls:
                del self._calls[topic]
                self._buffer.order_changed(topic)
            else:
                # A call that leaves from the middle gets here too. In that case the first call is already done.
                first = next(iter(calls))
                if not first.done():
                    first.set_result(None)


class Buffer:
    """Appends to the accumulator in the order of the calls, and waits where necessary.

    One writer at a time appends without this class (:class:`RecordAppender`): the producer or its open transaction. It
    can do so only for topics in its ``_ready_topics``, so emptying these stops the writer.

    Attributes:
        accumulator: The batches.
        close_error: The error that every call raises; None while the buffer is open.
        interceptors: Called for each record.
        home: The process and event loop in which the producer was started.
    """

    def __init__(
        self, accumulator: Accumulator, settings: ProducerConfig, interceptors: Interceptors = NO_INTERCEPTORS
    ) -> None:
        self.accumulator = accumulator
        self.interceptors = interceptors
        self.close_error: KafkaError | None = ClientClosedError(
            "the producer is not started: use async with, or await start()"
        )
        # The writer that may append without this class. It's set once the producer is open, and each transaction
        # replaces it.
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
        # When the running task last let other tasks run (loop time). 0.0 makes the first slow append yield.
        self._yielded = 0.0
        # Calls that wait for memory take turns: the oldest call gets the first free bytes. Otherwise small records
        # would starve a large one forever.
        self._turn = asyncio.Lock()
        self._order = AppendOrder(self)
        # Set when batches get an outcome, and cleared by the one call whose turn it is.
        self._room = asyncio.Event()
        # The topic ids in the metadata that was applied last: a new id under the same name is a new topic (KIP-516).
        self._ids: dict[str, bytes] = {}
        # The generation of the snapshot that was last applied to each topic.
        self._generations: dict[str, int] = {}
        self._waiting_calls = Interruptible()

    def open(self, cluster: ClusterClient, sender: Sender) -> None:
        """Start accepting records. Call this in the running loop.

        Args:
            cluster: Source of the metadata.
            sender: Its timer is scheduled when there is something to send.
        """
        self.home.enter()
        self._loop = self.accumulator.delivery_context.loop = asyncio.get_running_loop()
        self._cluster = cluster
        self._timer = sender.timer
        self.close_error = None

    def set_writer(self, writer: RecordAppender[Any, Any], session: WriteSession) -> None:
        """Let only ``writer`` append without waiting. Its topics become ready with their first records."""
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
        session.close_error = why
        if session is self._session:
            self._stop_writer()
        # This wakes the call that waits for memory, which finds the error in check_open().
        self._room.set()

    def close(self, why: KafkaError) -> None:
        """Accept no more records; waiting calls raise ``why``."""
        self.close_error = why
        # Records take the slow path now, where check_open() raises `why`.
        self._stop_writer()
        self._room.set()

    def check_open(self, session: WriteSession | None = None) -> None:
        """Raise if the producer cannot be used here, or if the session has ended.

        Raises:
            ConfigurationError: The running event loop is not the producer's.
            KafkaError: The producer isn't started, is closed, or has failed; or the error that ended the session.
        """
        if self.close_error is None:
            # The gate; see aiokproto.application.gates.
            self.check_loop()
            self._cluster.check()
            if session is not None and session.close_error is not None:
                # Many calls raise the same instance: without this, each would add its frames to the traceback.
                raise session.close_error.with_traceback(None)
            return
        self.check_loop()
        raise self.close_error.with_traceback(None)

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
        """Wake the calls that wait for memory, after batches are done."""
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
            # This is the common slow path: the open batch is full, and the next one can be opened at once.
            # MAX_LOOP_HOLD limits how long a task can stay here without letting the sender run. If the turn is locked,
            # an earlier call waits for memory, and small records must not take the bytes that it waits for.
            if queues is not None and not self._turn.locked() and now - self._yielded <= MAX_LOOP_HOLD:
                appended = self._add(queues, record, now)
                if appended is not None:
                    return appended
            deadline = now + self._max_block
            # The call enters the queue before the first await, so no later call can get ahead of it.
            with self._order.entered(record.topic) as turn:
                async with self._waiting_calls.scope(_aborted):
                    # Yield before appending the record: a call that is cancelled here must not have sent anything.
                    await self._yield_to_others()
                    # This isn't under the deadline: it has its own max_block_ms, and its error mentions the metadata.
                    queues = await self.topic(record.topic)
                    await self._until(turn, deadline)
                    # During the waits the producer may have been closed, or the transaction may have ended.
                    self.check_open(session)
                    # Choose the partition only now: the number of partitions may have changed while the call waited.
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
            # A topic can be missing from _ready_topics for other reasons too. Each of them has its own error here.
            queues = self.accumulator.topics.get(record.topic)
            if queues is None:
                # Check for a wrong argument, which would be retried forever.
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
        """Append a record that needs a new or a larger batch. Returns None if memory is short."""
        _, partition, timestamp, key, value, headers = record
        if partition is not None:
            # Check the partition again: while the record waited, the topic may have been created again with fewer
            # partitions.
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
        """Append encoded batches once memory is free. Returns each batch's outcome and greatest timestamp."""
        try:
            self.check_open(session)
            deadline = self._loop.time() + self._max_block
            with self._order.entered(topic) as turn:
                async with self._waiting_calls.scope(_aborted):
                    queues = await self.topic(topic)
                    topic_partition = _queue(queues, partition).topic_partition
                    for stored in batches:
                        # Check all batches before appending the first one, so either every batch can be sent or none.
                        self.accumulator.check_size(stored, topic_partition)
                    # This call waits for earlier ones. But it keeps its turn while it appends its batches, so no record
                    # gets between them.
                    await self._until(turn, deadline)
                    appended: list[tuple[Outcome, int]] = []
                    for stored in batches:
                        # Yield before check_open(): what that checks must still hold when the batch is added.
                        await self._yield_to_others()
                        self.check_open(session)
                        add = partial(self._add_encoded, queues, partition, stored)
                        batch = await self._when_memory_free(session, add, deadline)
                        appended.append((batch.outcome, stored.max_timestamp))
                    return appended
        except KafkaError as error:
            session.missing(error)
            raise

    def _add_encoded(self, queues: TopicQueues, partition: int, stored: RecordBatch) -> EncodedBatch | None:
        """Append a copy of an encoded batch. Returns None if memory is short."""
        added = self.accumulator.append_encoded(_queue(queues, partition), stored, self._loop.time())
        self._timer.call_soon()
        return added

    # -- waiting

    async def topic(self, name: str) -> TopicQueues:
        """Return a topic's queues. Requests its metadata if necessary."""
        check_topic(name)
        self.check_open()
        # A topic that was written to can be missing from the snapshot because it expired or was deleted. If so, request
        # it again.
        if name not in self.accumulator.topics or name not in self._cluster.snapshot.topics:
            # Brokers may be configured to create a topic that is written to (auto.create.topics.enable).
            await self._cluster.topic(name, self._max_block, create=True, keep=False)
            # Update once per snapshot: thousands of calls may have waited for a topic with thousands of partitions.
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
            # The topic was deleted, or has expired from the metadata. Keep it while a call waits, since the call holds
            # its queues.
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
            # Compare the ids before the line below replaces them.
            recreated = bool(snapshot.recreated(self._topic_ids(name)))
            self.accumulator.update(name, leaders, self._loop.time(), recreated=recreated)
            self._ids[name] = info.topic_id
            # Batches of removed partitions have failed, which freed memory.
            self.memory_freed()
        self.order_changed(name)

    def _may_forget(self, name: str) -> bool:
        # A topic that merely hasn't been used for long can be written to without a wait, so it's forgotten only if
        # there are too many.
        return bool(self._cluster.metadata.absent([name])) or len(self.accumulator.topics) > MAX_TOPICS

    def _topic_ids(self, name: str) -> dict[str, bytes]:
        return {name: self._ids[name]} if name in self._ids else {}

    def order_changed(self, topic: str) -> None:
        """Allow or forbid appending without :class:`Buffer`: only to a known topic that no call is waiting for."""
        # All conditions of the synchronous path are here. Whatever changes one of them calls this method.
        queues = self.accumulator.topics.get(topic)
        is_open = self.close_error is None and self._session.close_error is None
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
        """Let other tasks run if this one hasn't waited for :data:`MAX_LOOP_HOLD`."""
        if self._loop.time() - self._yielded > MAX_LOOP_HOLD:
            await asyncio.sleep(0)
            self.task_has_waited()

    async def _when_memory_free(self, session: WriteSession, add: Callable[[], T | None], deadline: float) -> T:
        """Call ``add`` until it returns a result, which it does once memory is free. Waiting calls proceed in order."""
        # If another call waits for memory, queue up. Otherwise don't take the lock: acquiring it would cost each record
        # an await.
        added = None if self._turn.locked() else add()
        if added is not None:
            return added
        try:
            # asyncio.Lock wakes waiters in order of arrival.
            async with timeout_at(deadline), self._turn:
                while True:
                    # Check after each wait: closing sets _room too.
                    self.check_open(session)
                    added = add()
                    if added is not None:
                        return added
                    # Clear the event after the failed attempt and before the wait, with no await in between, so a
                    # release can't be missed.
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
