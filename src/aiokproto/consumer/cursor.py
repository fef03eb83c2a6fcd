"""Where reading stands in one assigned partition, and what has been fetched of it. Pure.

Offsets of a partition, in the order they happen::

    finished ≤ position ≤ opened records … ≤ fetched chunks … ≤ fetch_offset

``fetch_offset`` is what the next Fetch asks for; chunks are what it answered, still as bytes; the records of one batch
at a time are opened, last one first, so that handing one out is a ``pop()``; ``position`` is the next to be handed out.
What is finished, the owner of the cursor knows: who hands out records sees when the next is asked for.
"""

from __future__ import annotations

from collections import deque
from enum import Enum
from typing import NamedTuple

from aiokproto.codec.wire import ZERO_UUID
from aiokproto.consumer.chunk import Chunk
from aiokproto.errors import KafkaError
from aiokproto.records import RecordBatch
from aiokproto.types import OffsetAndMetadata, Record, TopicPartition

EARLIEST = -2
"""ListOffsets' number for the first offset."""
LATEST = -1
"""ListOffsets' number for the offset after the last record."""
COMMITTED = -10
"""Start where the group has committed."""


class PartitionStatus(Enum):
    """Why a partition gives records, or gives none."""

    UNASSIGNED = "not assigned"
    FAILED = "failed"
    PAUSED = "paused"
    REVOKING = "being revoked"
    LOCATING = "finding out where to start"
    BUFFERED = "records are at hand"
    NO_LEADER = "no leader is known"
    BACKING_OFF = "waiting before another attempt"
    BUFFER_FULL = "waiting for buffered records to be taken"
    FETCHING = "a fetch is under way"
    IDLE = "a fetch is due"


class PartitionState(NamedTuple):
    """What a partition is doing.

    Attributes:
        status: In a word.
        detail: The error, broker or cause, where there is one.
    """

    status: PartitionStatus
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.status.value}: {self.detail}" if self.detail else self.status.value


class Cursor:
    """One assigned partition.

    Attributes:
        partition: Which.
        fetch_offset: The offset to fetch next; None while it is not known where to start.
        start: While that is so, what to ask for: ``COMMITTED``, ``EARLIEST``, ``LATEST``, or a time in ms.
        records: Records that are opened, last one first.
        batch: Where they are from.
        end: The position once those are handed out.
        chunks: What is fetched and not opened.
        leader_epoch: Epoch of the last batch opened, for commits.
        version: Grows whenever what was fetched before stops being of use (a seek): older answers are dropped.
        queued: Whether it waits for its turn to hand out.
        paused: Whether the user has paused it.
        held: Why nothing of it may be handed out or fetched now: it is being revoked, or not yet announced.
        error: Why it cannot go on until the user seeks; raised to who asks for records.
        attempts: Failed fetches in a row.
        failure: The last of those.
        retry_at: Loop time before which it is not fetched again.
        missing_since: Loop time since when brokers have said that the partition does not exist.
        fetching: The node that a fetch is under way to.
        wanted_size: Bytes that the next fetch has to bring of it, since less was of no use (KIP-74); 0 for the usual.
        replica: A follower that the leader told us to read from, and until when (KIP-392).
        high_watermark: The end of what is replicated; -1 when unknown.
        last_stable_offset: The end of what ``read_committed`` may see; -1 when unknown.
        log_start_offset: The first offset there is; -1 when unknown.
        topic_id: The topic that the offsets are of; zeros while nothing was fetched, or topics have no ids.
    """

    __slots__ = (
        "attempts",
        "batch",
        "chunks",
        "end",
        "error",
        "failure",
        "fetch_offset",
        "fetching",
        "held",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "missing_since",
        "partition",
        "paused",
        "queued",
        "records",
        "replica",
        "retry_at",
        "start",
        "topic_id",
        "version",
        "wanted_size",
    )

    def __init__(self, partition: TopicPartition, start: int) -> None:
        self.partition = partition
        self.start = start
        self.fetch_offset: int | None = None
        self.records: list[Record] = []
        self.batch: RecordBatch | None = None
        self.end = -1
        self.queued = False
        self.chunks: deque[Chunk] = deque()
        self.leader_epoch = -1
        self.version = 0
        self.paused = False
        self.held = ""
        self.error: KafkaError | None = None
        self.attempts = 0
        self.failure = ""
        self.retry_at = 0.0
        self.missing_since: float | None = None
        self.fetching: int | None = None
        self.wanted_size = 0
        self.replica: tuple[int, float] | None = None
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.topic_id = ZERO_UUID

    @property
    def position(self) -> int | None:
        """The next offset to be handed out; None while it is not known where to start."""
        if self.fetch_offset is None:
            return None
        return self.records[-1].offset if self.records else self.end

    @property
    def buffered(self) -> int:
        """Bytes fetched and not opened."""
        return sum(chunk.size for chunk in self.chunks)

    @property
    def ready(self) -> bool:
        """Whether records, or an error, can be handed out now."""
        if self.paused or self.held:
            return False
        return bool(self.records or self.chunks) or self.error is not None

    @property
    def fetchable(self) -> bool:
        """Whether a fetch makes sense, apart from whom to ask and when."""
        if self.fetch_offset is None or self.paused or self.held or self.error is not None:
            return False
        return not (self.chunks and self.chunks[-1].damage)

    def seek(self, start: int) -> None:
        """Go on from elsewhere, to be found out: ``COMMITTED``, ``EARLIEST``, ``LATEST``, or a time in ms."""
        self._drop()
        self.start = start
        self.fetch_offset = None
        self.end = -1

    def locate(self, offset: int, leader_epoch: int = -1) -> None:
        """Go on from this offset."""
        self._drop()
        self.fetch_offset = self.end = offset
        self.leader_epoch = leader_epoch

    def pause(self) -> None:
        """Hand out nothing; what is fetched is kept, for who knows how long."""
        self.paused = True
        for chunk in self.chunks:
            chunk.detach()

    def resume(self) -> None:
        """End :meth:`pause`."""
        self.paused = False

    def fail(self, error: KafkaError) -> None:
        """Stop until the user seeks."""
        self.error = error

    def retry(self) -> None:
        """End :meth:`fail` where the cause may pass: go on where it was."""
        self.failure = str(self.error)
        self.error = None
        self.missing_since = None

    def fetched(self, chunk: Chunk) -> None:
        """Take in a Fetch answer's records. Where none of them is for users, only the position moves on."""
        self.fetch_offset = chunk.end
        self.wanted_size = 0
        if self.paused:
            chunk.detach()
        if not chunk.exhausted:
            self.chunks.append(chunk)
        elif self.chunks:
            self.chunks[-1].end = chunk.end
        else:
            self.end = chunk.end

    def opened(self, records: list[Record], batch: RecordBatch) -> None:
        """Take in the records of the first chunk's first batch, last one first."""
        chunk = self.chunks[0]
        self.records = records
        self.batch = batch
        self.leader_epoch = batch.partition_leader_epoch
        self.end = chunk.take()
        if chunk.exhausted:
            self.chunks.popleft()

    def taken(self) -> list[RecordBatch]:
        """Give away all of the first chunk that was not handed out yet, as batches. Position is after it then."""
        batches = [self.batch] if self.records and self.batch else []
        self.records = []
        if self.chunks:
            chunk = self.chunks.popleft()
            batches += chunk.batches
            self.end = chunk.end
            self.leader_epoch = batches[-1].partition_leader_epoch if batches else self.leader_epoch
            if chunk.damage:
                chunk.batches.clear()
                chunk.size = 0
                self.chunks.appendleft(chunk)
        return batches

    def succeeded(self) -> None:
        """A fetch was answered without an error."""
        self.attempts = 0
        self.failure = ""
        self.retry_at = 0.0
        self.missing_since = None

    def committable(self, in_hand: int | None) -> OffsetAndMetadata | None:
        """What to commit: the position, or ``in_hand`` where the user is still busy with that offset."""
        position = self.position
        if position is None:
            return None
        return OffsetAndMetadata(position if in_hand is None else min(in_hand, position), "", self.leader_epoch)

    def lag(self, read_committed: bool) -> int | None:
        """Records between the position and the end, as far as known from the last fetch."""
        end = self.last_stable_offset if read_committed else self.high_watermark
        position = self.position
        return None if end < 0 or position is None else max(end - position, 0)

    def _drop(self) -> None:
        self.version += 1
        self.records = []
        self.batch = None
        self.chunks.clear()
        self.error = None
        self.replica = None
        self.wanted_size = 0
        self.topic_id = ZERO_UUID
        self.succeeded()
