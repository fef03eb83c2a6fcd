"""The batches of one partition, in order, and the sequence numbers that keep them so."""

from __future__ import annotations

from collections import deque
from enum import Enum, auto

from aiokproto.accelerator import twin
from aiokproto.errors import KafkaError
from aiokproto.producer.batch import ProducerBatch
from aiokproto.types import TopicPartition

MAX_EPOCH = 0x7FFF


CONFIRMED_FOR = 60.0
"""Seconds without a batch after which a broker may have forgotten the producer (``producer.id.expiration.ms``)."""


class SequenceRestart(Enum):
    """Whether the partition's sequence numbers restart, under the next epoch (KIP-360)."""

    NO = auto()
    AFTER_SEQUENCED = auto()
    """Once every batch that has a number is done. One that failed may or may not be in the log: batches after it that
    were sent as well keep their numbers, so that they cannot be written twice."""
    NOW = auto()
    """As soon as nothing is under way: the broker has refused the oldest batch, so those after it are not in the log
    either."""


@twin("posting")
class OpenBatchSlot:
    """Where records of a partition go.

    Attributes:
        open: The batch that takes them; None until the next record.
    """

    __slots__ = ("open",)

    def __init__(self) -> None:
        self.open: ProducerBatch | None = None


class PartitionQueue(OpenBatchSlot):
    """The batches of one partition.

    In order: those in flight, those waiting (``closed``: retries first), and the one that takes records (``open``).

    Attributes:
        where: The partition.
        leader: Node id of its leader, None when there is none.
        gone: Why nothing can be written to it any more.
        closed: Full or returned batches.
        in_flight: Sent and not answered.
        sent_to: Node id of the broker that has, or had, what is in flight.
        sent_at: When the last batch was sent (s).
        confirmed_by: Node id of a broker that has acknowledged a batch, and failed none since.
        last_size: Bytes that the last batch came to, before compression.
        due: The open batch goes out as it is at the next chance.
        retry_at: Nothing is sent before (s).
        producer: Producer id and epoch that the sequence numbers belong to.
        next_sequence: The number for the next record.
        restart: Whether the numbers must restart.
    """

    __slots__ = (
        "closed",
        "confirmed_by",
        "due",
        "gone",
        "in_flight",
        "last_size",
        "leader",
        "next_sequence",
        "numbered",
        "producer",
        "restart",
        "retry_at",
        "sent_at",
        "sent_to",
        "where",
    )

    def __init__(self, where: TopicPartition, leader: int | None) -> None:
        self.where = where
        self.leader = leader
        self.gone: KafkaError | None = None
        super().__init__()
        self.closed: deque[ProducerBatch] = deque()
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
        """A place in the order, for a new batch."""
        self.numbered += 1
        return self.numbered

    def close_open(self) -> ProducerBatch | None:
        """Move the open batch to those that wait; returns it."""
        batch, self.open, self.due = self.open, None, False
        if batch is not None:
            self.closed.append(batch)
        return batch

    def requeue(self, *batches: ProducerBatch) -> None:
        """Put batches that were in flight back where they belong. Parts of a split batch share its number."""
        place = 0
        while place < len(self.closed) and self.closed[place].number < batches[0].number:
            place += 1
        for batch in reversed(batches):
            self.closed.insert(place, batch)

    def discard(self, batch: ProducerBatch) -> None:
        """Take a batch out wherever it is."""
        if batch is self.open:
            self.open = None
            self.due = False
        elif batch in self.in_flight:
            self.in_flight.remove(batch)
        else:
            self.closed.remove(batch)

    def sendable(self, in_flight_limit: int) -> bool:
        """Whether order allows the next batch to be sent.

        Several batches are in flight only to a broker that has acknowledged one of this partition. A broker that knows
        nothing of the producer takes any first sequence number: if it refused the first batch of several, for want of
        replicas say, it would take the second, and the first could be written only behind it. For the same reason
        nothing is sent to a new leader while the old one has batches unanswered.

        A retry is in flight alone: if it failed again, the batch behind it could get ahead.
        """
        if not self.in_flight:
            return True
        if len(self.in_flight) >= in_flight_limit or self.restart is not SequenceRestart.NO:
            return False
        if not self.leader == self.sent_to == self.confirmed_by:
            return False
        next_is_retry = bool(self.closed and self.closed[0].attempts)
        return not next_is_retry and self.in_flight[0].attempts <= 1

    def take(self, now: float) -> ProducerBatch:
        """Move the first waiting batch, which must exist, in flight."""
        if not self.closed:
            self.close_open()
        if not self.in_flight and now - self.sent_at > CONFIRMED_FOR:
            self.confirmed_by = None
        self.sent_at = now
        batch = self.closed.popleft()
        batch.attempts += 1
        self.in_flight.append(batch)
        self.sent_to = self.leader
        return batch

    # -- sequence numbers (KIP-98)

    def assign(self, batch: ProducerBatch, producer: tuple[int, int]) -> None:
        """Give a batch that is about to be sent its sequence number, unless it has one from an earlier attempt.

        Args:
            batch: The batch, already taken.
            producer: The producer's current id and first epoch.
        """
        restart = self.restart
        if restart is not SequenceRestart.NO and (restart is SequenceRestart.NOW or batch.sequence < 0):
            self._restart_numbers(producer)
        if self.producer[0] < 0:
            self.producer = producer
        if batch.sequence < 0:
            batch.stamp(*self.producer, self.next_sequence)
            self.next_sequence = (self.next_sequence + batch.count) & 0x7FFFFFFF

    def _restart_numbers(self, producer: tuple[int, int]) -> None:
        producer_id, epoch = self.producer
        # An id that the producer has not exchanged meanwhile goes on with the next epoch; the broker fences the last.
        self.producer = (producer_id, epoch + 1) if producer_id == producer[0] else producer
        self.next_sequence = 0
        self.restart = SequenceRestart.NO
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
        """Begin numbers anew; the stricter demand wins."""
        if self.restart is not SequenceRestart.NOW:
            self.restart = restart


@twin("posting")
class TopicQueues:
    """The queues of a topic's partitions.

    Attributes:
        name: The topic's name.
        queues: One per partition.
        available: Partitions with a leader.
        sticky: Where records without a key go for now.
        sticky_bytes: What went to that partition since it was chosen.
    """

    __slots__ = ("available", "name", "queues", "sticky", "sticky_bytes")

    def __init__(self, name: str) -> None:
        self.name = name
        self.queues: list[PartitionQueue] = []
        self.available: list[int] = []
        self.sticky: PartitionQueue
        self.sticky_bytes = 0
