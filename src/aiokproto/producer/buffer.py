"""Where calls wait before they append: for their turn, for metadata, and for room."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TypeVar

from aiokproto.cluster import ClusterClient, ClusterSnapshot
from aiokproto.errors import BufferFullError, ClientClosedError, ConfigurationError, DeadlineError, KafkaError
from aiokproto.net.timeouts import timeout_at
from aiokproto.net.timer import Timer
from aiokproto.producer.accumulator import Accumulator
from aiokproto.producer.append_order import AppendOrder
from aiokproto.producer.appender import RecordAppender
from aiokproto.producer.batch import EncodedBatch
from aiokproto.producer.config import ProducerConfig
from aiokproto.producer.delivery import Delivery
from aiokproto.producer.outcome import Outcome
from aiokproto.producer.partitioner import check_partition
from aiokproto.producer.queue import PartitionQueue, TopicQueues
from aiokproto.producer.record import PendingRecord
from aiokproto.records import RecordBatch
from aiokproto.runtime import thread_id

T = TypeVar("T")

LONGEST_STRETCH = 0.001
"""How long (s) a task that never has to wait may keep the loop to itself."""


class Buffer:
    """Appends to the accumulator, in the order of the calls.

    Attributes:
        accumulator: The batches.
        closed: Why nothing is taken; None while it is open.
    """

    def __init__(self, accumulator: Accumulator, settings: ProducerConfig, appender: RecordAppender) -> None:
        self.accumulator = accumulator
        self.closed: KafkaError | None = ClientClosedError("the producer is not started")
        self._appender = appender
        self._linger = settings.limits.linger
        self._max_block = settings.max_block
        self._memory = settings.limits.buffer_memory
        self._cluster: ClusterClient
        self._timer: Timer
        self._loop: asyncio.AbstractEventLoop
        self._yielded = 0.0
        self._turn = asyncio.Lock()
        self._order = AppendOrder(self._order_changed)
        self._room = asyncio.Event()
        self._ids: dict[str, bytes] = {}
        self._generations: dict[str, int] = {}

    def open(self, cluster: ClusterClient, timer: Timer) -> None:
        """Begin to take records; must be called in the running loop.

        Args:
            cluster: Where metadata comes from.
            alarm: Set when there is something to send.
        """
        self._loop = self.accumulator.delivery_context.loop = asyncio.get_running_loop()
        self._appender._thread = thread_id()
        self._cluster = cluster
        self._timer = timer
        self.closed = None

    def close(self, why: KafkaError) -> None:
        """Take no more records; waiting calls raise ``why``."""
        self.closed = why
        for topic in self.accumulator.topics:
            self._appender._set_ready(topic, None)
        self._room.set()

    def check_open(self) -> None:
        """Raise why it cannot be used here and now.

        Raises:
            ConfigurationError: This is not the event loop it was opened in.
            KafkaError: It is closed.
        """
        if self.closed is None:
            self._cluster.check()
            return
        self.check_loop()
        raise self.closed.with_traceback(None)

    def check_loop(self) -> None:
        """Raise ConfigurationError if this is not the event loop it was opened in."""
        if self.accumulator.delivery_context.loop not in (None, asyncio._get_running_loop()):
            raise ConfigurationError(
                "this producer was started in another event loop: use it in that one, or make one for each loop"
            )

    def room_freed(self) -> None:
        """Batches are done: wake calls that wait for room."""
        self._room.set()

    def task_has_waited(self) -> None:
        """The running task had to wait, so that others had their turn of the loop."""
        self._yielded = self._loop.time()

    # -- records

    async def append(self, record: PendingRecord) -> Delivery:
        """Append a record as soon as its topic is known and there is room, in the order of the calls."""
        self.check_open()
        now = self._loop.time()
        queues = self._appender._ready_topics.get(record.topic)
        if queues is not None and not self._turn.locked() and now - self._yielded <= LONGEST_STRETCH:
            appended = self._add(queues, record, now)
            if appended is not None:
                return appended
        deadline = now + self._max_block
        with self._order.entered(record.topic) as turn:
            # Before the record is appended, so that cancelling here still means that it is never sent.
            await self._let_others()
            queues = await self.topic(record.topic)
            await self._until(turn(), deadline)
            self.check_open()
            chosen = self._appender._choose_partition(queues, record.partition, record.key, record.value)
            record = record._replace(partition=chosen)
            return await self._when_room(lambda: self._add(queues, record, self._loop.time()), deadline)

    def try_append(self, record: PendingRecord) -> Delivery:
        """Append a record now.

        Raises:
            BufferFullError: It would have to wait.
        """
        self.check_open()
        queues = self.accumulator.topics.get(record.topic)
        if queues is None:
            raise BufferFullError(
                f"the metadata of topic {record.topic!r} is not known yet: await partitions_for() first"
            )
        if self._order.waits(record.topic):
            raise BufferFullError(f"other calls wait to write to topic {record.topic!r}")
        delivery = None if self._turn.locked() else self._add(queues, record, self._loop.time())
        if delivery is None:
            raise BufferFullError(self._full())
        return delivery

    def _add(self, queues: TopicQueues, record: PendingRecord, now: float) -> Delivery | None:
        """Append a record that needs a new batch or a larger one; None if the budget has no room for it."""
        _, partition, timestamp, key, value, headers = record
        if partition is not None:
            # While the record waited, the topic may have been created again with fewer.
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

    # -- batches as they were stored

    async def append_encoded(
        self, topic: str, partition: int, batches: Sequence[RecordBatch]
    ) -> list[tuple[Outcome, int]]:
        """Append batches as soon as there is room: the outcome of each, and its greatest timestamp."""
        self.check_open()
        deadline = self._loop.time() + self._max_block
        with self._order.entered(topic) as turn:
            queues = await self.topic(topic)
            where = _queue(queues, partition).where
            for one in batches:
                self.accumulator.check_size(one, where)
            await self._until(turn(), deadline)
            appended: list[tuple[Outcome, int]] = []
            for one in batches:
                await self._let_others()
                self.check_open()
                batch = await self._when_room(partial(self._add_encoded, queues, partition, one), deadline)
                appended.append((batch.outcome, one.max_timestamp))
            return appended

    def _add_encoded(self, queues: TopicQueues, partition: int, stored: RecordBatch) -> EncodedBatch | None:
        """Copy a batch; None if the budget has no room for it."""
        added = self.accumulator.append_encoded(_queue(queues, partition), stored, self._loop.time())
        self._timer.call_soon()
        return added

    # -- waiting

    async def topic(self, name: str) -> TopicQueues:
        """The queues of a topic, whose metadata is asked for if need be."""
        self.check_open()
        if name not in self.accumulator.topics or name not in self._cluster.snapshot.topics:
            # Brokers may be configured to create a topic that is written to (auto.create.topics.enable).
            await self._cluster.topic(name, self._max_block, create=True, keep=False)
            # Thousands of calls may have waited for a topic of thousands of partitions.
            if self._generations.get(name) != self._cluster.snapshot.generation:
                self._update_topic(name, self._cluster.snapshot)
        return self.accumulator.topics[name]

    def update_topics(self, snapshot: ClusterSnapshot) -> None:
        """Take in the cluster metadata."""
        for name in list(self.accumulator.topics):
            self._update_topic(name, snapshot)

    def _update_topic(self, name: str, snapshot: ClusterSnapshot) -> None:
        self._generations[name] = snapshot.generation
        info = snapshot.topics.get(name)
        if info is None:
            # Deleted, or not written to for long. The sequence numbers must outlast that.
            self.accumulator.withdraw(name)
        else:
            leaders = [snapshot.leader(name, number) for number in range(len(info.partitions))]
            self.accumulator.update(name, leaders, recreated=bool(snapshot.recreated(self._topic_ids(name))))
            self._ids[name] = info.topic_id
            # What was for partitions that are gone has failed.
            self.room_freed()
        self._order_changed(name)

    def _topic_ids(self, name: str) -> dict[str, bytes]:
        return {name: self._ids[name]} if name in self._ids else {}

    def _order_changed(self, topic: str) -> None:
        """Have calls append at once that need not wait: to topics that are known and that no other call waits for."""
        queues = self.accumulator.topics.get(topic)
        ready = self.closed is None and not self._order.waits(topic) and topic in self._cluster.snapshot.topics
        self._appender._set_ready(topic, queues if ready else None)

    async def _until(self, turn: Awaitable[None], deadline: float) -> None:
        try:
            async with timeout_at(deadline):
                await turn
        except asyncio.TimeoutError:
            raise self._no_room() from None

    async def _let_others(self) -> None:
        """Let other tasks have their turn of the loop, if this one never had to wait for long enough."""
        if self._loop.time() - self._yielded > LONGEST_STRETCH:
            await asyncio.sleep(0)
            self.task_has_waited()

    async def _when_room(self, add: Callable[[], T | None], deadline: float) -> T:
        """What ``add`` gives as soon as there is room for it, in the order of the calls that wait."""
        added = None if self._turn.locked() else add()
        if added is not None:
            return added
        try:
            async with timeout_at(deadline), self._turn:
                while True:
                    self.check_open()
                    added = add()
                    if added is not None:
                        return added
                    self._room.clear()
                    await self._room.wait()
        except asyncio.TimeoutError:
            raise self._no_room() from None

    def _no_room(self) -> DeadlineError:
        return DeadlineError(f"no room within max_block_ms={self._max_block * 1000:g}: {self._full()}")

    def _full(self) -> str:
        return f"{self.accumulator.used} of buffer_memory={self._memory} bytes are in use"


def _queue(queues: TopicQueues, partition: int) -> PartitionQueue:
    return queues.queues[check_partition(partition, queues.name, len(queues.queues))]
