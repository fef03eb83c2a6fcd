"""One assigned partition: where it starts, what is fetched, what is delivered. Pure.

A cursor is made of parts with one writer each: :class:`~aiokproto.consumer.start_lookup.StartLookup` (the locator),
:class:`~aiokproto.consumer.fetch_state.FetchState` (the fetcher), :class:`~aiokproto.consumer.buffer.RecordBuffer` (the
reader), and what stands here, which the assignment writes: whether it is available. Its offsets, in their order::

    finished ≤ position ≤ opened records … ≤ fetched chunks … ≤ fetch.offset

What is finished, the assignment knows: it sees when the record after a delivered one is asked for. A seek concerns all
parts, so it is one event (:meth:`Cursor.seek`, :meth:`Cursor.locate`), and changes the version: what was asked for
under another version is dropped.
"""

from __future__ import annotations

from enum import Enum
from itertools import count
from typing import NamedTuple

from aiokproto.consumer.buffer import RecordBuffer
from aiokproto.consumer.chunk import Chunk, Supply
from aiokproto.consumer.fetch_state import FetchState
from aiokproto.consumer.start_lookup import StartLookup
from aiokproto.errors import KafkaError
from aiokproto.types import OffsetAndMetadata, TopicPartition

_VERSIONS = count(1)


class PartitionStatus(Enum):
    """Why a partition gives records, or gives none."""

    UNASSIGNED = "not assigned"
    FAILED = "failed"
    PAUSED = "paused"
    REVOKING = "being revoked"
    LOCATING = "finding out where to start"
    BUFFERED = "records are buffered"
    NO_LEADER = "no leader is known"
    BACKING_OFF = "waiting before another attempt"
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
        partition: Its topic and number.
        fetch: What the fetcher knows of it.
        buffer: What is fetched and not delivered.
        lookup: How its start is found out; another one after each seek.
        version: Unlike that of any other cursor, and another one after each seek.
        paused: Whether the user has paused it.
        held: Why nothing of it may be delivered or fetched now, if so: it is being revoked, or not yet announced.
        queued: Whether it waits for its turn to deliver.
        error: Why it cannot go on until the user seeks; raised from the next read.
    """

    __slots__ = ("buffer", "error", "fetch", "held", "lookup", "partition", "paused", "queued", "version")

    def __init__(self, partition: TopicPartition, start: int, held: str = "") -> None:
        self.partition = partition
        self.fetch = FetchState()
        self.buffer = RecordBuffer()
        self.lookup = StartLookup(start)
        self.version = next(_VERSIONS)
        self.paused = False
        self.held = held
        self.queued = False
        self.error: KafkaError | None = None

    # What it is

    @property
    def position(self) -> int | None:
        """The next offset to be delivered; None while it is not known where to start."""
        return None if self.fetch.offset is None else self.buffer.position

    @property
    def ready(self) -> bool:
        """Whether records, or an error, can be delivered now."""
        return not self.paused and not self.held and (bool(self.buffer) or self.error is not None)

    @property
    def unresolved(self) -> bool:
        """Whether its position has to be found out."""
        return self.fetch.offset is None and self.error is None

    @property
    def fetchable(self) -> bool:
        """Whether a fetch makes sense, apart from whom to ask and when."""
        if self.fetch.offset is None or self.paused or self.held or self.error is not None:
            return False
        return not self.buffer.damaged

    def lag(self, read_committed: bool) -> int | None:
        """Records between the position and the end, as far as known from the last fetch."""
        end = self.fetch.last_stable_offset if read_committed else self.fetch.high_watermark
        position = self.position
        return None if end < 0 or position is None else max(end - position, 0)

    def committable(self, delivered: int | None) -> OffsetAndMetadata | None:
        """What to commit: the position, or ``delivered`` while the user processes the record of that offset."""
        position = self.position
        if position is None:
            return None
        offset = position if delivered is None else min(delivered, position)
        return OffsetAndMetadata(offset, "", self.buffer.leader_epoch)

    # What happens to it

    def seek(self, start: int) -> None:
        """Go on from elsewhere, to be found out: ``COMMITTED``, ``EARLIEST``, ``LATEST``, or a time (ms)."""
        self._restart(None, -1, -1)
        self.lookup = StartLookup(start)

    def locate(self, offset: int, leader_epoch: int = -1) -> None:
        """Go on from this offset."""
        self._restart(offset, offset, leader_epoch)

    def _restart(self, fetch_offset: int | None, position: int, leader_epoch: int) -> None:
        self.version = next(_VERSIONS)
        self.buffer.restart(position, leader_epoch)
        self.fetch.restart(fetch_offset)
        self.error = None

    def received(self, chunk: Chunk, supply: Supply) -> None:
        """Take what a fetch has brought."""
        self.fetch.advance(chunk.end)
        chunk.count_in(supply)
        self.buffer.put(chunk)
        self._park()

    def pause(self, paused: bool) -> None:
        """Deliver nothing, or go on; what is fetched is kept."""
        self.paused = paused
        self._park()

    def hold(self, why: str) -> None:
        """As :meth:`pause`, for the group's sake; an empty text ends it."""
        self.held = why
        self._park()

    def fail(self, error: KafkaError) -> None:
        """Stop until the user seeks, or :meth:`retry`."""
        self.error = error
        self._park()

    def _park(self) -> None:
        if self.paused or self.held or self.error is not None:
            self.buffer.park()
        else:
            self.buffer.unpark()

    def retry(self) -> None:
        """Go on where it was, as the cause of its error may have passed."""
        self.fetch.retry(str(self.error))
        self.lookup.missing_since = None
        self.error = None
        self._park()
