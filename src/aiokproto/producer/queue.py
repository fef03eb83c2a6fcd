"""The batches of one partition in order, and their sequence numbers (KIP-98, KIP-360).

Batches move ``open`` → ``closed`` → ``in_flight``, and back to ``closed`` for a retry. A batch's ``number`` is its
position in the order of the calls. It never changes, so a retry finds its position again. A batch gets its sequence
number when it's first sent, and not before, so that one which expires while it waits leaves no gap. The package's
docstring says why several batches in flight need a leader that has acknowledged one.
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
"""Seconds without a batch after which the leader counts as one without state for this producer id.

A broker forgets it after ``producer.id.expiration.ms``, a day by default; the client doesn't know the setting.
"""


class SequenceRestart(Enum):
    """Whether, and when, the partition's sequence numbers restart at 0 in the next epoch (KIP-360)."""

    NO = auto()
    AFTER_SEQUENCED = auto()
    """Restart once every batch with a sequence number has an outcome. A batch that failed may or may not be in the log.
    Batches that were sent after it keep their sequence numbers, because with new ones the broker could write them
    twice."""
    NOW = auto()
    """Restart once nothing is in flight. The broker rejected the oldest batch, so the log has no later one either."""


@has_compiled_form
class OpenBatchSlot:
    """The open batch of a partition. It's a class of its own for its compiled form, which is read for every record.

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
        removal_error: Why the partition does not exist any more; None while it does.
        closed: Batches that wait to be sent: full ones, and retries.
        in_flight: Batches sent, without a response.
        sent_to: Node id of the broker that the last batch was sent to.
        sent_at: When the last batch was sent (s).
        confirmed_by: Node id of a broker that has acknowledged a batch and failed none since.
        last_size: Bytes of the last closed batch, before compression.
        due: Whether the open batch is to be sent as it is: its linger has ended.
        retry_at: Backoff: nothing is sent before this time (s).
        producer: Producer id and epoch of the sequence numbers.
        next_sequence: The sequence number of the next record.
        restart: Whether the sequence numbers must restart.
        numbered: How many batches have a ``number``.
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
        """Whether every batch has its outcome."""
        return self.open is None and not self.closed and not self.in_flight

    def close_open(self) -> ProducerBatch | None:
        """Move the open batch to the closed ones, and return it."""
        batch, self.open, self.due = self.open, None, False
        if batch is not None:
            self.closed.append(batch)
        return batch

    def requeue(self, *batches: ProducerBatch) -> None:
        """Put batches that were in flight back at their position. Parts of a split batch share its number."""
        index = 0
        # The search is linear: only other retries have smaller numbers, and there are at most as many as were in
        # flight.
        # guard: batches that come back keep their order
        while index < len(self.closed) and self.closed[index].number < batches[0].number:
            index += 1
        # All are inserted at one index, so the last one comes first.
        for batch in reversed(batches):
            self.closed.insert(index, batch)

    def discard(self, batch: ProducerBatch) -> None:
        """Remove a batch from the collection that has it."""
        if batch is self.open:
            self.open = None
            self.due = False
        elif batch in self.in_flight:
            self.in_flight.remove(batch)
        else:
            self.closed.remove(batch)

    def sendable(self, in_flight_limit: int) -> bool:
        """Whether the next batch can be sent without endangering the order.

        Several batches are in flight only to a leader that has acknowledged one of this partition. A broker without
        state for the producer id accepts any first sequence number. If it rejected the first of several batches
        (NOT_ENOUGH_REPLICAS, for example), it would accept the second, and the first could only be written after it.
        For the same reason nothing is sent to a new leader while the old one has batches in flight.

        A retry is in flight alone: if it failed again, the batch behind it could overtake it.
        """
        if not self.in_flight:
            return True
        # Further batches must not get numbers that will restart.
        if len(self.in_flight) >= in_flight_limit or self.restart is not SequenceRestart.NO:
            return False
        # guard: a new leader gets nothing while the old one has batches -> self.confirmed_by is None
        # guard: several batches are in flight only to a broker that has acknowledged one -> self.leader != self.sent_to
        if not self.leader == self.sent_to == self.confirmed_by:
            return False
        next_is_retry = bool(self.closed and self.closed[0].attempts)
        # in_flight[0] is the oldest, so if one of them is a retry, it's that one.
        # guard: a retry is in flight alone -> True
        return not next_is_retry and self.in_flight[0].attempts <= 1

    def take(self, now: float) -> ProducerBatch:
        """Move the first waiting batch to those in flight, and return it. There must be one."""
        if not self.closed:
            self.close_open()
        # The response of a batch in flight says whether the leader is confirmed.
        # guard: a broker may forget an idle producer
        if not self.in_flight and now - self.sent_at > CONFIRMED_FOR:
            self.confirmed_by = None
        self.sent_at = now
        batch = self.closed.popleft()
        # An attempt counts when the batch is taken and not when it's written, since from here on the batch shares the
        # fate of its request.
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
        # AFTER_SEQUENCED waits for a batch without a number: such a batch gets here only when nothing numbered is
        # before it (sendable).
        if restart is not SequenceRestart.NO and (restart is SequenceRestart.NOW or batch.sequence < 0):
            self._restart_numbers(producer)
        if self.producer[0] < 0:
            self.producer = producer
        self._stamp(batch)

    def assign_in_transaction(self, batch: ProducerBatch, producer: tuple[int, int]) -> None:
        """As :meth:`assign`, for a producer whose coordinator decides the epoch: a new epoch restarts the numbers."""
        # Each partition compares, instead of a reset when the epoch changes. So a partition notices with its next
        # batch, and idle partitions cost nothing.
        if self.producer != producer:
            self.producer = producer
            self.next_sequence = 0
            self.restart = SequenceRestart.NO
        self._stamp(batch)

    def _stamp(self, batch: ProducerBatch) -> None:
        # A retry keeps its number, because only then does the broker recognize what it has written already.
        # guard: a batch without a response is sent again with the same sequence number -> True
        if batch.sequence < 0:
            batch.stamp(*self.producer, self.next_sequence)
            # Sequence numbers wrap from 2**31 - 1 to 0, as in the broker.
            self.next_sequence = (self.next_sequence + batch.count) & 0x7FFFFFFF

    def _restart_numbers(self, producer: tuple[int, int]) -> None:
        producer_id, epoch = self.producer
        # The same producer id continues with the next epoch, which fences late batches of the epoch before.
        self.producer = (producer_id, epoch + 1) if producer_id == producer[0] else producer
        self.next_sequence = 0
        self.restart = SequenceRestart.NO
        # They get new numbers when they are sent again. The batch that was just taken is in `in_flight`.
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
        """Request a restart of the sequence numbers; NOW wins over AFTER_SEQUENCED."""
        # NOW is the stronger statement: the broker has said that nothing after the batch is in its log.
        if self.restart is not SequenceRestart.NOW:
            self.restart = restart


@has_compiled_form
class TopicQueues:
    """The queues of a topic's partitions.

    Attributes:
        name: The topic's name.
        queues: One per partition.
        available: Partitions with a leader.
        sticky: The queue for records without a key, until a batch is full (KIP-480, KIP-794).
        sticky_bytes: Bytes written to that partition since it was chosen.
    """

    __slots__ = ("available", "name", "queues", "sticky", "sticky_bytes")

    def __init__(self, name: str) -> None:
        self.name = name
        self.queues: list[PartitionQueue] = []
        self.available: list[int] = []
        self.sticky: PartitionQueue
        self.sticky_bytes = 0
