"""Buffered records: batches per partition, the memory budget, linger and expiry (pure: callers pass in the time).

**Linger.** A batch becomes ready (``_ready``) when it's closed, or when its linger ends while it's still open.
``_lingering`` lists the open batches in the order of their first records, so the linger of its first entry ends next.
With ``linger_ms=0`` a batch is ready with its first record, and collects records only until the sender runs.
:meth:`Accumulator.end_linger` ends the linger of all batches at once: on a flush, and when memory is short.

**Memory.** A batch reserves little memory at first, and doubles its reservation as it fills. So thousands of slow
partitions fit in ``buffer_memory``. ``used`` is the sum of all reservations. A batch releases its reservation when it
has an outcome.

**Expiry.** ``_incomplete`` lists every batch without an outcome, oldest first. ``delivery_timeout_ms`` counts from a
batch's first record, so the first entry is always the next to expire, whatever its state.
"""

from __future__ import annotations

import math
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from aiokproto.error_codes import ErrorCode
from aiokproto.errors import DeadlineError, KafkaError, MessageTooLargeError, error_for
from aiokproto.observe.observers import ProducerObserver
from aiokproto.producer.batch import EncodedBatch, ProducerBatch
from aiokproto.producer.limits import BATCH_OVERHEAD, BatchSizes, BufferLimits
from aiokproto.producer.outcome import DeliveryContext
from aiokproto.producer.queue import PartitionQueue, SequenceRestart, TopicQueues
from aiokproto.producer.sticky import StickyPartitioner
from aiokproto.records import Compression, RecordBatch, estimate_size
from aiokproto.texts import counted
from aiokproto.types import Header, TopicPartition

if TYPE_CHECKING:
    from aiokproto.producer.producer_id import ProducerIds
    from aiokproto.producer.sink import Sinks
    from aiokproto.producer.transaction_manager import TransactionManager

FIRST_RESERVATION = 4096
"""Bytes that a partition's first batch reserves. Later batches start with the size of the batch before plus a quarter,
unless that is more than half of the free memory."""


class Drained(NamedTuple):
    """The result of :meth:`Accumulator.drain`.

    Attributes:
        requests: Node id → batches for one request, at most one per partition.
        leaderless: Partitions with ready batches but without a leader.
        wake_at: When to drain again (s) if nothing happens before then, or ``inf``.
    """

    requests: dict[int, list[ProducerBatch]]
    leaderless: list[TopicPartition]
    wake_at: float


class Accumulator:
    """All batches of a producer.

    Attributes:
        limits: Limits on its batches and memory; replaced once, before there are batches, if the brokers need other
            limits.
        topics: The queues of each topic that was written to.
        used: Bytes of ``buffer_memory`` in use.
        delivery_context: State that the outcomes of all its batches share.
        sticky: Chooses the partition for records without a key.
        transactions: Decides which partitions may be sent, and is notified of failed batches. None in a producer
            without transactions.
        producer_ids: Decides whether the sequence numbers of a queue can be forgotten. None until the producer is
            started.
        observer: Counts batches.
    """

    def __init__(
        self,
        limits: BufferLimits,
        *,
        compression: Compression = Compression.NONE,
        level: int | None = None,
        transactional: bool = False,
        sticky: StickyPartitioner,
        observer: ProducerObserver | None = None,
    ) -> None:
        self.observer = observer or ProducerObserver()
        self.topics: dict[str, TopicQueues] = {}
        self.used = 0
        self.delivery_context = DeliveryContext()
        self.limits = limits
        # A larger record can never be sent, so the call refuses it. Otherwise the call would wait for memory forever.
        self._largest = min(limits.max_request_size, limits.buffer_memory)
        self._sizes = BatchSizes(limits)
        self._compression = compression
        self._level = level
        self._transactional = transactional
        self.transactions: TransactionManager | None = None
        self.producer_ids: ProducerIds | None = None
        self.sticky = sticky
        # A queue holds sequence numbers, which must not restart in the same epoch. So only forget() removes it.
        self._queues: dict[TopicPartition, PartitionQueue] = {}
        # The batches, in the order in which they were opened, which is the order of expiry. An OrderedDict finds its
        # first entry in constant time even after many removals; a dict scans the entries that were deleted before it.
        self._incomplete: OrderedDict[ProducerBatch, None] = OrderedDict()
        # These are in the order of opening too. A closed batch stays until it's the first entry: then drain() drops it.
        self._lingering: deque[ProducerBatch] = deque()
        # This dict serves as an ordered set: partitions take turns if a request can't hold all of them (_take).
        self._ready: dict[PartitionQueue, None] = {}

    # -- topics

    def update(self, topic: str, leaders: Sequence[int | None], now: float, *, recreated: bool = False) -> TopicQueues:
        """Apply a topic's metadata.

        Args:
            topic: The topic.
            leaders: The node id of each partition's leader, or None.
            now: The time (s).
            recreated: Whether the topic was deleted and created again since the last call. Only then can it have fewer
                partitions, and batches of removed partitions fail.
        """
        queues = self.topics.get(topic)
        if queues is None:
            queues = self.topics[topic] = TopicQueues(topic)
        for number, leader in enumerate(leaders):
            topic_partition = TopicPartition(topic, number)
            queue = self._queues.get(topic_partition)
            if queue is None:
                queue = self._queues[topic_partition] = PartitionQueue(topic_partition, leader)
            # Partitions are only appended, in order, so the index of a queue is its partition number.
            if number == len(queues.queues):
                queues.queues.append(queue)
            # If a recreated topic has a removed partition again, the partition takes records again: its queue was
            # failed but not forgotten.
            queue.leader, queue.removal_error = leader, None
            # The new topic's leader has no state for the producer id, even if it's the same broker.
            # guard: a topic that was created again is a new one
            if recreated:
                queue.confirmed_by = None
        for queue in queues.queues[len(leaders) :]:
            # A response with fewer partitions but without a new topic id is outdated. Batches of the missing partitions
            # wait.
            queue.leader = None
        if recreated:
            for queue in queues.queues[len(leaders) :]:
                self._remove(queue)
            del queues.queues[len(leaders) :]
        self._update_available(queues, now)
        return queues

    def _remove(self, queue: PartitionQueue) -> None:
        queue.removal_error = error_for(
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            str(queue.topic_partition),
            "the topic was created again with fewer partitions",
        )
        # Leave batches in flight alone: their responses decide their fate (if they're retried, retry() fails them).
        for batch in (*queue.closed, *([queue.open] if queue.open is not None else [])):
            self.fail(batch, queue.removal_error)

    def forget(self, topic: str) -> bool:
        """Forget a topic that isn't in the metadata any more, and return whether that was possible.

        It isn't possible while a batch of the topic has no outcome, or while the topic's sequence numbers are needed.
        """
        queues = list(self.topics[topic].queues)
        # Check the later partitions too: they were removed when the topic was created again, and still have queues.
        while (removed := self._queues.get(TopicPartition(topic, len(queues)))) is not None:
            queues.append(removed)
        if not all(queue.is_empty and self._may_forget(queue) for queue in queues):
            return False
        for queue in queues:
            del self._queues[queue.topic_partition]
            # The queue may still be marked as ready for a batch that has failed since.
            self._ready.pop(queue, None)
        del self.topics[topic]
        self._sizes.forget(topic)
        return True

    def _may_forget(self, queue: PartitionQueue) -> bool:
        return self.producer_ids is None or self.producer_ids.may_forget(queue)

    def clear_leaders(self, topic: str, now: float) -> None:
        """Clear the leaders of a topic that isn't in the metadata any more. Its queues and sequence numbers stay."""
        queues = self.topics[topic]
        for queue in queues.queues:
            queue.leader = None
        self._update_available(queues, now)

    def _update_available(self, queues: TopicQueues, now: float) -> None:
        available = [queue.topic_partition.partition for queue in queues.queues if queue.leader is not None]
        # The slot is unset until the first metadata with partitions to choose from arrives.
        sticky: PartitionQueue | None = getattr(queues, "sticky", None)
        if available != queues.available or sticky is None or sticky.topic_partition.partition >= len(queues.queues):
            queues.available = available
            self._switch(queues, now)

    def _switch(self, topic: TopicQueues, now: float) -> None:
        sticky: PartitionQueue | None = getattr(topic, "sticky", None)
        current = None if sticky is None else sticky.topic_partition.partition
        topic.sticky = topic.queues[self.sticky.choose(topic, current, self._ready, now)]
        topic.sticky_bytes = 0

    # -- records in

    def append(
        self,
        topic: TopicQueues,
        partition: int | None,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Header],
        now: float,
    ) -> tuple[ProducerBatch, int] | None:
        """Append a record. Grow the open batch or open a new one if necessary.

        Args:
            topic: The topic's queues.
            partition: The partition, or None for the sticky one.
            timestamp: Milliseconds since the epoch.
            key: The key.
            value: The value.
            headers: The headers.
            now: The time (s).

        Returns:
            The batch and the record's index in it, or None if memory is short. If so, the linger of all batches has
            ended.

        Raises:
            MessageTooLargeError: The record alone exceeds ``max_request_size`` or ``buffer_memory``.
        """
        # This is an upper bound: the exact size is known only when the record is written, and memory must be reserved
        # before that.
        need = estimate_size(key, value, headers)
        queue = topic.sticky if partition is None else topic.queues[partition]
        batch = queue.open
        if batch is not None:
            if self._grow(batch, need):
                index = batch.append(timestamp, key, value, headers)
                if index is not None:
                    return batch, index
            # The batch has room, but there's no memory. A new batch wouldn't help, so wait until a batch is done.
            elif batch.size + need <= self._sizes.most(topic.name):
                # Calls wait for memory now. Unless lingering batches are sent, nothing would ever be freed.
                self.end_linger()
                return None
        if need + BATCH_OVERHEAD > self._largest:
            self._refuse("the record takes up to", need + BATCH_OVERHEAD, queue.topic_partition)
        # The sticky partition changes when its batch is full (KIP-480), and also after that many bytes (KIP-794): a
        # partition whose batches are sent before they're full would otherwise stay sticky.
        if partition is None and (batch is not None or topic.sticky_bytes >= self._sizes.most(topic.name)):
            self._close(queue)
            self._switch(topic, now)
            queue = topic.sticky
            if queue.open is not None:
                # The recursive call passes the partition, so it can't switch again.
                return self.append(topic, queue.topic_partition.partition, timestamp, key, value, headers, now)
        batch = self._new_batch(queue, need + BATCH_OVERHEAD, now)
        if batch is None:
            self.end_linger()
            return None
        # The record is appended before anything refers to the batch. If append() raises MemoryError, an empty batch
        # must not remain: it couldn't be sent.
        index = batch.append(timestamp, key, value, headers)
        assert index is not None, "the first record of a batch always fits"
        self._open(queue, batch)
        return batch, index

    def append_encoded(self, queue: PartitionQueue, stored: RecordBatch, now: float) -> EncodedBatch | None:
        """Append an encoded batch unchanged, after all records that were appended earlier. It doesn't linger.

        Args:
            queue: The partition's queue.
            stored: The batch, checked by :func:`~aiokproto.producer.encoded_batches.record_batches`.
            now: The time (s).

        Returns:
            The batch, or None if memory is short. If so, the linger of all batches has ended.

        Raises:
            MessageTooLargeError: The batch is too large (:meth:`check_size`).
        """
        self.check_size(stored, queue.topic_partition)
        if stored.size_in_bytes > self.limits.buffer_memory - self.used:
            self.end_linger()
            return None
        # Close the open batch first: its records were appended before this batch and must precede it.
        self._close(queue)
        batch = EncodedBatch(
            queue.topic_partition, queue.number(), now, self.delivery_context, stored, transactional=self._transactional
        )
        batch.reserved = batch.wire_size
        self.used += batch.reserved
        queue.closed.append(batch)
        self._incomplete[batch] = None
        self._ready[queue] = None
        return batch

    def check_size(self, stored: RecordBatch, topic_partition: TopicPartition) -> None:
        """Raise if the batch can never be sent.

        Raises:
            MessageTooLargeError: The batch exceeds ``max_request_size`` or ``buffer_memory``.
        """
        if stored.size_in_bytes > self._largest:
            self._refuse("the record batch takes", stored.size_in_bytes, topic_partition)

    def _refuse(self, what: str, size: int, topic_partition: TopicPartition) -> NoReturn:
        limits = self.limits
        option = "max_request_size" if size > limits.max_request_size else "buffer_memory"
        text = f"{what} {size} bytes, {option} is {getattr(limits, option)}"
        raise MessageTooLargeError(ErrorCode.MESSAGE_TOO_LARGE, str(topic_partition), text)

    def _grow(self, batch: ProducerBatch, need: int) -> bool:
        """Reserve ``need`` more bytes for an open batch; return whether that was possible."""
        wanted, most = batch.size + need, self._sizes.most(batch.topic_partition.topic)
        if wanted > most:
            return False
        if wanted <= batch.max_bytes:
            return True
        # The batch may also use the bytes that it has already reserved.
        room = self.limits.buffer_memory - self.used + batch.reserved
        # The reservation doubles, so a slow partition never reserves a whole `batch_size`, and a fast one does after a
        # few steps.
        size = min(max(wanted, 2 * batch.max_bytes), most, room)
        if size < wanted:
            return False
        self.used += size - batch.reserved
        batch.reserved = size
        batch.grow(size)
        return True

    def _new_batch(self, queue: PartitionQueue, need: int, now: float) -> ProducerBatch | None:
        """Return a batch that reserves at least ``need`` bytes, or None if memory is short."""
        if queue.open is not None:
            self._close(queue)
        room = self.limits.buffer_memory - self.used
        if need > room:
            return None
        # Batches of a partition are similar in size. Starting near the last size saves the doublings and the copies of
        # a growing buffer.
        likely = queue.last_size + queue.last_size // 4
        if likely < FIRST_RESERVATION or 2 * likely > room:
            likely = FIRST_RESERVATION
        most = self._sizes.most(queue.topic_partition.topic)
        size = max(need, min(likely, most, room))
        batch = ProducerBatch(
            queue.topic_partition,
            queue.number(),
            now,
            self.delivery_context,
            # A record larger than batch_size reserves its own size. The limit stays, so no second record joins it.
            max_bytes=min(size, most),
            compression=self._compression,
            level=self._level,
            transactional=self._transactional,
        )
        batch.reserved = size
        return batch

    def _open(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        self.used += batch.reserved
        queue.open = batch
        self._incomplete[batch] = None
        if self.limits.linger:
            self._lingering.append(batch)
        else:
            self._due(batch)

    def _close(self, queue: PartitionQueue) -> None:
        batch = queue.close_open()
        if batch is None:
            return
        # A closed batch doesn't grow, so release the bytes that it reserved but didn't fill, before it's even sent.
        self.used -= batch.reserved - batch.size
        batch.reserved = batch.size
        queue.last_size = batch.size
        self._ready[queue] = None
        topic = self.topics[queue.topic_partition.topic]
        # Keyed records count too: the choice of the sticky partition balances what all partitions receive.
        if topic.sticky is queue:
            topic.sticky_bytes += batch.size

    def end_linger(self) -> None:
        """End the linger of every open batch, for a flush or because calls wait for memory."""
        while self._lingering:
            self._due(self._lingering.popleft())

    def _due(self, batch: ProducerBatch) -> None:
        queue = self._queues.get(batch.topic_partition)
        # If it isn't open, the batch was filled, and is closed and ready; or it's done, and its topic was forgotten.
        if queue is not None and queue.open is batch:
            queue.due = True
            self._ready[queue] = None

    # -- batches out

    def drain(self, now: float, sinks: Sinks) -> Drained:
        """Take the batches that can be sent now: at most one request per node, and one batch per partition.

        The linger of open batches ends here (``linger_ms``).

        Args:
            now: The time (s).
            sinks: The brokers' sinks. A batch is taken only if its broker's sink has capacity for another request.
        """
        while self._lingering and (
            # Batches that have been filled and closed are still in the deque: removing them then would take a scan.
            self._lingering[0].created + self.limits.linger <= now or not self._is_open(self._lingering[0])
        ):
            self._due(self._lingering.popleft())
        requests: dict[int, list[ProducerBatch]] = {}
        sizes: dict[int, int] = {}
        leaderless: list[TopicPartition] = []
        wake_at = self.next_deadline()
        transactions = self.transactions
        for queue in list(self._ready):
            batch = _next_batch(queue)
            if batch is None:
                del self._ready[queue]
            elif queue.retry_at > now:
                # The queue stays in _ready, at the cost of one check per round.
                wake_at = min(wake_at, queue.retry_at)
            elif queue.leader is None:
                leaderless.append(queue.topic_partition)
            elif queue.sendable(self.limits.in_flight) and (
                transactions is None or transactions.may_send(queue.topic_partition)
            ):
                node = queue.leader
                size = sizes.get(node, 0)
                # A batch that doesn't fit waits for the next request. The first batch is always taken, or it would
                # never be sent. The scan continues, since smaller batches of other partitions may still fit.
                if size and size + batch.wire_size > self.limits.max_request_size:
                    continue
                if not size:
                    has_capacity = sinks.has_capacity(node)
                    self.sticky.capacity_checked(node, now, has_capacity=has_capacity)
                    if not has_capacity:
                        continue
                sizes[node] = size + batch.wire_size
                # Take a batch only when its request is certain to be sent: a batch in flight without a request would
                # never complete.
                requests.setdefault(node, []).append(self._take(queue, now))
        return Drained(requests, leaderless, wake_at)

    def _take(self, queue: PartitionQueue, now: float) -> ProducerBatch:
        if not queue.closed:
            self._close(queue)
        # The queue is added again at the end. If a request has no space for all partitions, the next request starts
        # with the rest.
        del self._ready[queue]
        batch = queue.take(now)
        if batch.attempts == 1:
            self.observer.queue_time.add(now - batch.created)
        if queue.closed or queue.due:
            self._ready[queue] = None
        return batch

    def _is_open(self, batch: ProducerBatch) -> bool:
        queue = self._queues.get(batch.topic_partition)
        return queue is not None and queue.open is batch

    def next_deadline(self) -> float:
        """Return when the next linger ends or the next batch expires (s), or ``inf`` if there's no batch."""
        lingered = self._lingering[0].created + self.limits.linger if self._lingering else math.inf
        return min(lingered, self.next_expiry())

    def next_expiry(self) -> float:
        """Return when the next batch expires (s), or ``inf`` if there's none."""
        for oldest in self._incomplete:
            return oldest.created + self.limits.delivery_timeout
        return math.inf

    def has_due(self, now: float) -> bool:
        """Whether a batch is ready, even if its broker can't take it now."""
        # The batches of these queues have failed. A drain would drop the queues, but nothing is drained before there's
        # a producer id, and they would make the sender request one forever.
        for queue in [queue for queue in self._ready if _next_batch(queue) is None]:
            del self._ready[queue]
        while self._lingering and not self._is_open(self._lingering[0]):
            self._lingering.popleft()
        return self.has_ready or bool(self._lingering and self._lingering[0].created + self.limits.linger <= now)

    @property
    def has_ready(self) -> bool:
        """Whether any queue may have a batch to send."""
        return bool(self._ready)

    def queue(self, batch: ProducerBatch) -> PartitionQueue:
        """Return a batch's queue."""
        return self._queues[batch.topic_partition]

    # -- outcomes

    def complete(self, batch: ProducerBatch, base_offset: int, append_time: int = -1) -> None:
        """Complete a batch that is in the log."""
        queue = self._release(batch)
        # The broker has state for the producer id now and rejects a gap, so several batches can be in flight.
        queue.confirmed_by = queue.sent_to
        # Report it before complete() drops the bytes. A closed batch reserves its size before compression.
        self.observer.written(
            batch.topic_partition,
            base_offset,
            batch.count,
            batch.wire_size,
            batch.reserved,
            batch.attempts,
            batch.created,
        )
        if self._compression and not isinstance(batch, EncodedBatch):
            self._sizes.written(batch.topic_partition.topic, batch.reserved, batch.wire_size)
        batch.complete(base_offset, append_time)

    def fail(self, batch: ProducerBatch, error: KafkaError, record_errors: dict[int, KafkaError] | None = None) -> None:
        """Fail a batch. It won't be sent (again)."""
        queue = self._release(batch)
        # The batch may be missing from the log while a later one is there. So the leader again gets only one batch
        # until it has acknowledged one.
        queue.confirmed_by = None
        if batch.sequence >= 0:
            # The broker may or may not have written it, so its sequence number can't be used for another batch.
            # guard: a failed batch leaves a gap, so the sequence numbers restart
            queue.require_restart(SequenceRestart.AFTER_SEQUENCED)
        self.observer.failed(batch.topic_partition, batch.count, batch.attempts, batch.created, error)
        # The queue is consistent before the batch fails, because callbacks of waiting tasks may append at once.
        batch.fail(error, record_errors)
        # This comes last: it may close the session, and by then the batch has its outcome.
        if self.transactions is not None:
            self.transactions.batch_failed(batch, error)

    def _release(self, batch: ProducerBatch) -> PartitionQueue:
        queue = self._queues[batch.topic_partition]
        queue.discard(batch)
        # A later batch may be sendable now.
        if queue.closed or queue.due:
            self._ready[queue] = None
        del self._incomplete[batch]
        # guard: the memory of a batch is released
        self.used -= batch.reserved
        return queue

    def retry(self, batch: ProducerBatch, error: KafkaError, at: float) -> None:
        """Return a batch in flight to its queue. It's sent again at ``at`` (s) or later."""
        queue = self._queues[batch.topic_partition]
        if queue.removal_error is not None:
            self.fail(batch, queue.removal_error)
            return
        # If the batch expires, its error mentions what kept it from being written.
        batch.last_error = error
        self.observer.retried(batch.topic_partition, batch.count, batch.attempts, error)
        queue.in_flight.remove(batch)
        queue.requeue(batch)
        # The backoff applies to the partition, not just the batch: a younger batch must not be sent while an older one
        # waits.
        queue.retry_at = max(queue.retry_at, at)
        self._ready[queue] = None

    def restart(self, batch: ProducerBatch, error: KafkaError, at: float) -> None:
        """Retry a batch whose sequence number the broker rejected.

        If an older batch has no outcome yet, the broker is missing that batch, and the sequence number stays valid.
        Otherwise the broker has lost its state for this producer, or a failed batch has left a gap, and the sequence
        numbers restart.
        """
        queue = self._queues[batch.topic_partition]
        # A younger batch doesn't count: the broker also rejects it while an older one is merely being retried.
        # guard: the sequence numbers restart only when the oldest batch is rejected -> True
        if queue.oldest_sequenced is batch:
            queue.require_restart(SequenceRestart.NOW)
        self.retry(batch, error, at)

    def split(self, batch: ProducerBatch) -> None:
        """Replace a batch in flight that is too large for the broker with its two halves (KIP-126).

        The halves of an encoded batch reserve their uncompressed size, even if that exceeds ``buffer_memory``.

        Raises:
            KafkaError: The records of an encoded batch can't be decoded. The batch is still in flight.
        """
        self._sizes.too_large(batch.topic_partition.topic)
        queue = self._queues[batch.topic_partition]
        # The records are decoded from the bytes that were sent: the builder gave its buffer away when the batch was
        # sealed.
        records = batch.records()
        middle = len(records) // 2
        parts = [
            batch.part(records[:middle], 0, self.delivery_context),
            batch.part(records[middle:], middle, self.delivery_context),
        ]
        reserved = batch.reserved
        if isinstance(batch, EncodedBatch):
            reserved = max(reserved, parts[0].size + parts[1].size - BATCH_OVERHEAD)
            # The decoded records of a compressed batch take more memory than the batch did. Refusing that memory would
            # fail records that were already accepted.
            self.used += reserved - batch.reserved
        parts[0].reserved = min(parts[0].size, reserved)
        parts[1].reserved = reserved - parts[0].reserved
        queue.in_flight.remove(batch)
        queue.requeue(*parts)
        self._ready[queue] = None
        # The batch was replaced, so it hasn't failed: its outcome follows from the outcomes of its parts.
        del self._incomplete[batch]
        # The parts are as old as the batch, so they are the first to expire.
        for part in reversed(parts):
            self._incomplete[part] = None
            self._incomplete.move_to_end(part, last=False)
        batch.split_into(parts)

    def expire(self, now: float) -> list[ProducerBatch]:
        """Fail every batch whose delivery timeout has passed, and return them."""
        expired: list[ProducerBatch] = []
        while self._incomplete:
            batch = next(iter(self._incomplete))
            if batch.created + self.limits.delivery_timeout > now:
                break
            expired.append(batch)
            queue = self._queues[batch.topic_partition]
            self.fail(batch, self._expired(batch, queue))
        return expired

    def _expired(self, batch: ProducerBatch, queue: PartitionQueue) -> DeadlineError:
        reason = str(batch.last_error) if batch.last_error else ""
        if not reason and queue.leader is None:
            reason = "the partition has no leader"
        elif not reason and batch in queue.in_flight:
            reason = "it is being compressed" if batch.data is None else "the broker has not responded"
        error = DeadlineError(
            f"{batch} not acknowledged within delivery_timeout_ms={round(self.limits.delivery_timeout * 1000)}; "
            f"{counted(batch.attempts, 'attempt')}" + (f", last: {reason}" if reason else "")
        )
        error.__cause__ = batch.last_error
        return error

    def fail_unsent(self, error: KafkaError) -> list[ProducerBatch]:
        """Fail every batch that was never sent, and return them. The application already knows about the error."""
        # take() counts the attempts, so 0 means that no byte of the batch has been sent.
        unsent = [batch for batch in self._incomplete if not batch.attempts]
        for batch in unsent:
            batch.outcome.observed = True
            self.fail(batch, error)
        return unsent

    def fail_all(self, error: Callable[[ProducerBatch], KafkaError]) -> None:
        """Fail every batch without an outcome."""
        for batch in list(self._incomplete):
            self.fail(batch, error(batch))

    def last_used(self, topic: str) -> float:
        """Return when a batch of a topic was last sent (s): ``inf`` while batches wait, ``-inf`` if never."""
        queues = self.topics[topic].queues if topic in self.topics else []
        if not all(queue.is_empty for queue in queues):
            return math.inf
        return max((queue.sent_at for queue in queues), default=-math.inf)

    @property
    def incomplete(self) -> Iterator[ProducerBatch]:
        """The batches without an outcome, oldest first."""
        return iter(self._incomplete)


def _next_batch(queue: PartitionQueue) -> ProducerBatch | None:
    """Return the batch that a queue would send next, or None if none is ready."""
    # Retries come first: they are at the head of `closed`, and an open batch is always the youngest.
    return queue.closed[0] if queue.closed else queue.open if queue.due else None
