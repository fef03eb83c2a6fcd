"""One assigned partition: its start position, fetched records and delivered records. Pure.

A cursor consists of parts, each with a single writer: :class:`~aiokproto.consumer.start_lookup.StartLookup` (the
resolver), :class:`~aiokproto.consumer.fetch_state.FetchState` (the fetcher),
:class:`~aiokproto.consumer.buffer.RecordBuffer` (the reader), and its own fields, which say whether the partition is
available (the assignment). Its offsets are ordered::

    processed ≤ position ≤ opened records … ≤ fetched chunks … ≤ fetch.offset

Every assignment makes a new cursor, which lives until the partition is revoked or lost. So the same cursor means that
the consumer has owned the partition without interruption, over any number of generations or epochs. Records refer to
its :class:`Ownership`.

The assignment knows which records are processed, because it sees when the next record is requested. A seek affects all
parts, so it's one event (:meth:`Cursor.seek`, :meth:`Cursor.set_position`) that changes :attr:`Cursor.version`: a
response that was requested under another version is dropped when it arrives. Each version is a new object, which equals
no other. So a partition that was removed and added again gets a new version, too, and consumers in several threads
don't share a counter.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from aiokproto.consumer.buffer import RecordBuffer
from aiokproto.consumer.fetch_state import FetchState
from aiokproto.consumer.start_lookup import FormerPosition, StartLookup
from aiokproto.errors import KafkaError
from aiokproto.fetched.chunk import BufferedBytes, Chunk
from aiokproto.types import OffsetAndMetadata, Ownership, TopicPartition


class PartitionStatus(Enum):
    """What the consumer is doing about a partition."""

    UNASSIGNED = "not assigned"
    FAILED = "failed"
    PAUSED = "paused"
    REVOKING = "being revoked"
    RESOLVING = "looking up the start position"
    FULL = "run() has as many unfinished records as it may"
    VALIDATING = "checking that the log still has the position"
    BUFFERED = "records are buffered"
    NO_LEADER = "no leader is known"
    BACKING_OFF = "waiting to retry"
    FETCHING = "a fetch is in flight"
    IDLE = "a fetch is due"


class PartitionState(NamedTuple):
    """What the consumer is doing about a partition, and why.

    Attributes:
        status: The state.
        detail: The error, broker or cause, if there is one.
    """

    status: PartitionStatus
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.status.value}: {self.detail}" if self.detail else self.status.value


class LogState(NamedTuple):
    """A partition's position, and its log as of the last fetch. Unknown values are None.

    Attributes:
        position: The offset of the next record to be delivered.
        log_start_offset: The first offset of the log.
        last_stable_offset: The end of what ``read_committed`` can read: the first offset of an open transaction, or the
            high watermark.
        high_watermark: The end of what can be read: the offset after the last replicated record.
        lag: The number of offsets between the position and the end that this consumer can read.
        leader_epoch: The leader epoch of the last fetch.
    """

    position: int | None
    log_start_offset: int | None
    last_stable_offset: int | None
    high_watermark: int | None
    lag: int | None
    leader_epoch: int | None

    @property
    def at_end(self) -> bool:
        """Whether everything that this consumer could read at the last fetch was delivered. False while unknown."""
        return self.lag == 0


class Cursor:
    """One assigned partition.

    Attributes:
        partition: Topic and number.
        ownership: Identifies the assignment that created this cursor.
        delivered_to: The offset after the last delivered record, or the sought offset if no record is outstanding; -1
            before the first record.
        fetch: The fetch state.
        buffer: Records that are fetched but not delivered.
        lookup: The lookup of the start position. Each seek creates a new lookup.
        version: An object unique to this cursor, replaced by each seek.
        paused: Whether the application has paused the partition.
        held: Why the group keeps the partition from being fetched and delivered: it's being assigned or revoked, or the
            session is unconfirmed. Empty if it doesn't.
        full: Whether :meth:`Consumer.run` has stopped taking records of the partition, because its handlers have enough
            or the next record isn't due.
        queued: Whether it is queued for delivery.
        error: Why the partition has stopped until the application seeks. The next read raises it.
    """

    __slots__ = (
        "_high",
        "_low",
        "_outstanding_from",
        "buffer",
        "delivered_to",
        "error",
        "fetch",
        "full",
        "held",
        "lookup",
        "ownership",
        "partition",
        "paused",
        "queued",
        "version",
    )

    def __init__(self, partition: TopicPartition, start: int, held: str = "") -> None:
        self.partition = partition
        self.ownership = Ownership()
        # All delivered records before this offset are committed, or will be delivered again.
        self._outstanding_from = -1
        self.delivered_to = -1
        # All delivered records are between these offsets.
        self._low, self._high = 0, 0
        self.fetch = FetchState()
        self.buffer = RecordBuffer()
        self.lookup = StartLookup(start)
        self.version = object()
        self.paused = False
        self.held = held
        self.full = False
        self.queued = False
        self.error: KafkaError | None = None

    # State

    @property
    def position(self) -> int | None:
        """The next offset to deliver; None while the start position is unknown."""
        # While the position is unknown, fetch.offset is None, and the buffer is meaningless.
        return None if self.fetch.offset is None else self.buffer.position

    @property
    def ready(self) -> bool:
        """Whether records, or an error, can be delivered now."""
        # An error is delivered too, so a failed partition is ready.
        return not self.stopped and (bool(self.buffer) or self.error is not None)

    @property
    def stopped(self) -> bool:
        """Whether delivery is stopped, even if records are buffered."""
        return self.paused or self.full or bool(self.held)

    @property
    def unresolved(self) -> bool:
        """Whether the position has to be looked up."""
        return self.fetch.offset is None and self.error is None

    @property
    def fetchable(self) -> bool:
        """Whether the partition should be fetched. The fetcher decides when, and from which broker."""
        if self.fetch.offset is None or self.stopped or self.error is not None:
            return False
        # Don't fetch past a damaged batch: later records cannot be delivered before it.
        return not self.buffer.damaged

    @property
    def outstanding(self) -> bool:
        """Whether some delivered records aren't committed, and won't be delivered again because of a seek."""
        return self.delivered_to > self._outstanding_from

    def has_delivered(self, offset: int) -> bool:
        """Return whether a record with this offset may have been delivered."""
        return self._low <= offset < max(self._high, self.position or 0)

    def lag(self, read_committed: bool) -> int | None:
        """Return the number of offsets between the position and the end of the log as of the last fetch; None if
        unknown."""
        end = self.fetch.last_stable_offset if read_committed else self.fetch.high_watermark
        position = self.position
        return None if end < 0 or position is None else max(end - position, 0)

    def log_state(self, read_committed: bool) -> LogState:
        """Return what is known about the log."""
        fetch = self.fetch
        return LogState(
            self.position,
            _known(fetch.log_start_offset),
            _known(fetch.last_stable_offset),
            _known(fetch.high_watermark),
            self.lag(read_committed),
            _known(fetch.leader_epoch),
        )

    def committable(self, processing: int | None) -> OffsetAndMetadata | None:
        """Return the offset to commit: the position, or ``processing``, the first offset that is being processed."""
        position = self.position
        if position is None:
            return None
        # Take the minimum: after a seek backwards, the position is before the record that is being processed.
        offset = position if processing is None else min(processing, position)
        return OffsetAndMetadata(offset, "", self.fetch.epochs.before(offset))

    # Events

    def seek(self, start: int, reset: FormerPosition | None = None) -> None:
        """Continue from a position to be looked up: ``COMMITTED``, ``EARLIEST``, ``LATEST``, or a timestamp (ms).

        ``reset`` is the former position if the consumer, and not the application, moves it.
        """
        self._restart(-1)
        self.fetch.restart(None)
        self.lookup = StartLookup(start, reset)

    def set_position(self, offset: int, epoch: int = -1, leader_epoch: int = -1) -> None:
        """Continue from this offset.

        Args:
            offset: The offset.
            epoch: The leader epoch that was committed or looked up with it; -1 if unknown.
            leader_epoch: The leader epoch of the lookup; -1 if the offset has to be validated (KIP-320).
        """
        self._restart(offset)
        self._continue_from(offset)
        self.fetch.restart(offset, epoch, leader_epoch)

    def rewind(self, offset: int, epoch: int) -> None:
        """Continue from an offset, where the leader's log diverges from the fetched records. ``epoch`` is the epoch of
        the leader's record there."""
        self._restart(offset)
        self._continue_from(offset)
        self.fetch.rewind(offset, epoch)

    def _restart(self, position: int) -> None:
        # Change the version first: this makes all responses to earlier requests outdated.
        self.version = object()
        self.buffer.restart(position)
        self.error = None

    def _continue_from(self, offset: int) -> None:
        if not self.outstanding or offset <= self._outstanding_from:
            self._outstanding_from = self.delivered_to = offset
        # Until a record is delivered, the range is empty.
        self._low = min(self._low, offset) if self._high else offset

    def delivered(self, until: int) -> None:
        """Note that the records before this offset were delivered to the application."""
        self.delivered_to = max(self.delivered_to, until)
        self._high = max(self._high, until)

    def committed(self, offset: int) -> None:
        """Note that the group has committed this offset."""
        self._outstanding_from = offset

    def received(self, chunk: Chunk, buffered: BufferedBytes) -> None:
        """Buffer a chunk of a fetch response."""
        self.fetch.advance(chunk.end, chunk.epochs)
        chunk.count_in(buffered)
        self.buffer.put(chunk)
        # A chunk for a paused partition counts as parked right away.
        self._park()

    def pause(self, paused: bool) -> None:
        """Stop or continue delivery; buffered records stay."""
        self.paused = paused
        self._park()

    def fill(self, full: bool) -> None:
        """Stop or continue delivery to :meth:`Consumer.run`; buffered records stay."""
        self.full = full
        self._park()

    def hold(self, why: str) -> None:
        """Stop delivery on behalf of the group, for the given reason. An empty reason continues it."""
        self.held = why
        self._park()

    def fail(self, error: KafkaError) -> None:
        """Stop until a seek by the application, or until :meth:`retry`."""
        self.error = error
        self._park()

    def _park(self) -> None:
        if self.stopped or self.error is not None:
            self.buffer.park()
        else:
            self.buffer.unpark()

    def retry(self) -> None:
        """Continue at the same position: the cause of the error may be gone."""
        self.fetch.retry(str(self.error))
        self.lookup.missing_since = None
        self.error = None
        self._park()


def _known(value: int) -> int | None:
    return None if value < 0 else value
