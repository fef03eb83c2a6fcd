"""The batches of one partition in order, and their sequence numbers (KIP-98, KIP-360).

Batches move ``open`` → ``closed`` → ``in_flight``, and back to ``closed`` for a retry. A batch's ``number`` is its
position in the order of the calls. It never changes, so a retry finds its position again. A batch gets its sequence
number when it's first sent, not earlier, so a batch that expires while it waits doesn't leave a gap. The package's
docstring explains why several batches in flight need a leader that has acknowledged one.
"""

from __future__ import annotations

from collections import deque
from enum import Enum, auto

from aiokproto.accelerator import has_compiled_form
from aiokproto.errors import KafkaError
from aiokproto.producer.batch import ProducerBatch
from aiokproto.types import TopicPartition

MAX_EPOCH = 0x7FFF

CONFIRMED_FOR = 60.0
"""Seconds without a batch after which the leader is assumed to have no state for this producer id.

A broker forgets the producer after ``producer.id.expiration.ms``, a day by default. The client doesn't know the
setting.
"""


class SequenceRestart(Enum):
    """Whether, and when, the partition's sequence numbers restart at 0 in the next epoch (KIP-360)."""

    NO = auto()
    AFTER_SEQUENCED = auto()
    """Restart once every batch with a sequence number has an outcome. The failed batch may or may not be in the log.
    Batches that were sent after it keep their sequence numbers: with new numbers, the broker could write them twice."""
    NOW = auto()
    """Restart once nothing is in flight. The broker rejected the oldest batch, so no later batch is in the log."""


@has_compiled_form
class OpenBatchSlot:
    """The open batch of a partition. It's a separate class because its compiled form is read for every record.

    Attributes:
        open: The batch that records are appended to; None until the next record.
    """

    __slots__ = ("open",)

    def __init__(self) -> None:
        self.open: ProducerBatch | None = None


class PartitionQueue(OpenBatchSlot):
    """The batches of one partition.

    Their order is: ``in_flight``, ``closed`` (retries first), ``open``.

    Attributes:
        topic_partition: The partition.
        leader: Node id of its leader, or None.
        removal_error: Why the partition no longer exists; None while it does.
        closed: Batches waiting to be sent: full ones, and retries.
        in_flight: Batches that were sent and have no response.
        sent_to: Node id of the broker that the last batch was sent to.
        sent_at: When the last batch was sent (s).
        confirmed_by: Node id of a broker that has acknowledged a batch, if no batch has failed since.
        last_size: Bytes of the last closed batch, before compression.
        due: Whether to send the open batch as it is: its linger has ended.
        retry_at: Nothing is sent before this time (s), because of backoff.
        producer: Producer id and epoch of the sequence numbers.
        next_sequence: The sequence number of the next record.
        restart: Whether the sequence numbers must restart.
        numbered: How many batches have been given a ``number``.
    """

    __slots__ = (
        "closed",
        "confirmed_by",
        "due",
        "in_flight",
        "last_size",
        "leader",
        "next_sequence",
        "numbered",
        "producer",
        "removal_error",
        "restart",
        "retry_at",
        "sent_at",
        "sent_to",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition, leader: int | None) -> None:
        self.topic_partition = topic_partition
        self.leader = leader
        self.removal_error: KafkaError | None = None
        super().__init__()
        self.closed: deque[ProducerBatch] = deque()
        # It's a list because the responses of several requests can fail in any order. It has at most five entries.
        self.in_flight: list[ProducerBatch] = []
        self.sent_to: int | None = None
        self.sent_at = 0.0
        self.confirmed_by: int | None = None
        self.last_size = 0
        self.due = False
        self.retry_at = 0.0
        self.producer = (-1, -1)
        self.next_sequence = 0
        self.restart = SequenceRestart.NO
        self.numbered = 0

    def number(self) -> int:
        """Return a new batch's position in the order of the partition's batches."""
        self.numbered += 1
        return self.numbered

    @property
    def is_empty(self) -> bool:
        """Whether every batch has an outcome."""
        return self.open is None and not self.closed and not self.in_flight

    def close_open(self) -> ProducerBatch | None:
        """Move the open batch to ``closed``, and return it."""
        batch, self.open, self.due = self.open, None, False
        if batch is not None:
            self.closed.append(batch)
        return batch

    def requeue(self, *batches: ProducerBatch) -> None:
        """Put batches that were in flight back at their positions. The parts of a split batch share its number."""
        index = 0
        # A linear search is fine: only other retries have smaller numbers, and there are at most as many as were in
        # flight.
        # guard: batches that come back keep their order
        while index < len(self.closed) and self.closed[index].number < batches[0].number:
            index += 1
        # All are inserted at the same index, so insert the last one first.
        for batch in reversed(batches):
            self.closed.insert(index, batch)

    def discard(self, batch: ProducerBatch) -> None:
        """Remove a batch from whichever collection it's in."""
        if batch is self.open:
            self.open = None
            self.due = False
        elif batch in self.in_flight:
            self.in_flight.remove(batch)
        else:
            self.closed.remove(batch)

    def sendable(self, in_flight_limit: int) -> bool:
        """Whether the next batch can be sent without endangering the order.

        Several batches are in flight only to a leader that has acknowledged a batch of this partition. A broker without
        state for the producer id accepts any first sequence number. If it rejected the first of several batches
        (NOT_ENOUGH_REPLICAS, for example), it would accept the second, and the first could only be written after it.
        For the same reason, nothing is sent to a new leader while batches are in flight to the old one.

        A retry is in flight alone: if it failed again, the next batch could overtake it.
        """
        if not self.in_flight:
            return True
        # Don't give more batches numbers that will restart.
        if len(self.in_flight) >= in_flight_limit or self.restart is not SequenceRestart.NO:
            return False
        # guard: a new leader gets nothing while the old one has batches -> self.confirmed_by is None
        # guard: several batches are in flight only to a broker that has acknowledged one -> self.leader != self.sent_to
        if not self.leader == self.sent_to == self.confirmed_by:
            return False
        next_is_retry = bool(self.closed and self.closed[0].attempts)
        # in_flight[0] is the oldest batch, so if any batch in flight is a retry, it's that one.
        # guard: a retry is in flight alone -> True
        return not next_is_retry and self.in_flight[0].attempts <= 1

    def take(self, now: float) -> ProducerBatch:
        """Move the first waiting batch to ``in_flight``, and return it. There must be a waiting batch."""
        if not self.closed:
            self.close_open()
        # If a batch is in flight, its response shows whether the leader is confirmed.
        # guard: a broker may forget an idle producer
        if not self.in_flight and now - self.sent_at > CONFIRMED_FOR:
            self.confirmed_by = None
        self.sent_at = now
        batch = self.closed.popleft()
        # Count an attempt when the batch is taken, not when it's written: from now on the batch shares the fate of its
        # request.
        batch.attempts += 1
        self.in_flight.append(batch)
        self.sent_to = self.leader
        return batch

    # -- sequence numbers (KIP-98)

    def assign(self, batch: ProducerBatch, producer: tuple[int, int]) -> None:
        """Assign a sequence number to a batch that is about to be sent, unless it has one from an earlier attempt.

        Args:
            batch: The batch, already taken.
            producer: The producer's current id and first epoch.
        """
        restart = self.restart
        # AFTER_SEQUENCED waits for a batch without a number. Such a batch gets here only when there's no numbered batch
        # before it (sendable).
        if restart is not SequenceRestart.NO and (restart is SequenceRestart.NOW or batch.sequence < 0):
            self._restart_numbers(producer)
        if self.producer[0] < 0:
            self.producer = producer
        self._stamp(batch)

    def assign_in_transaction(self, batch: ProducerBatch, producer: tuple[int, int]) -> None:
        """Like :meth:`assign`, for a producer whose coordinator decides the epoch: a new epoch restarts the numbers."""
        # Each partition compares epochs, instead of being reset when the epoch changes. So a partition notices with its
        # next batch, and idle partitions cost nothing.
        if self.producer != producer:
            self.producer = producer
            self.next_sequence = 0
            self.restart = SequenceRestart.NO
        self._stamp(batch)

    def _stamp(self, batch: ProducerBatch) -> None:
        # A retry keeps its number: that's how the broker recognizes a batch that it has already written.
        # guard: a batch without a response is sent again with the same sequence number -> True
        if batch.sequence < 0:
            batch.stamp(*self.producer, self.next_sequence)
            # Sequence numbers wrap from 2**31 - 1 to 0, as in the broker.
            self.next_sequence = (self.next_sequence + batch.count) & 0x7FFFFFFF

    def _restart_numbers(self, producer: tuple[int, int]) -> None:
        producer_id, epoch = self.producer
        # The same producer id continues with the next epoch, which fences late batches of the old epoch.
        self.producer = (producer_id, epoch + 1) if producer_id == producer[0] else producer
        self.next_sequence = 0
        self.restart = SequenceRestart.NO
        # These batches get new numbers when they're sent again. The batch that was just taken is in `in_flight`.
        for batch in (*self.in_flight, *self.closed):
            batch.sequence = -1

    @property
    def epochs_exhausted(self) -> bool:
        """Whether the next restart needs a new producer id."""
        return self.producer[1] >= MAX_EPOCH

    @property
    def oldest_sequenced(self) -> ProducerBatch | None:
        """The oldest batch that has a sequence number and no outcome."""
        candidates = [batch for batch in (*self.in_flight, *self.closed) if batch.sequence >= 0]
        return min(candidates, key=lambda batch: batch.number, default=None)

    def require_restart(self, restart: SequenceRestart) -> None:
        """Request a restart of the sequence numbers. NOW takes precedence over AFTER_SEQUENCED."""
        # NOW is stronger: the broker has said that no later batch is in its log.
        if self.restart is not SequenceRestart.NOW:
            self.restart = restart


@has_compiled_form
class TopicQueues:
    """The queues of a topic's partitions.

    Attributes:
        name: The topic's name.
        queues: One per partition.
        available: Partitions with a leader.
        sticky: The queue for records without a key until a batch is full (KIP-480, KIP-794).
        sticky_bytes: Bytes written to that partition since it was chosen.
    """

    __slots__ = ("available", "name", "queues", "sticky", "sticky_bytes")

    def __init__(self, name: str) -> None:
        self.name = name
        self.queues: list[PartitionQueue] = []
        self.available: list[int] = []
        self.sticky: PartitionQueue
        self.sticky_bytes = 0
