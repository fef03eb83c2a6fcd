"""Acquired records that are fetched but not delivered. Pure.

The broker sends whole record batches, but this member may have acquired only some of their offsets. An acquired offset
is either delivered, or acknowledged without a delivery: as a gap if there is no record (control batches, compaction),
or as damaged.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any, NamedTuple

from aiokproto.codec.messages.share_fetch import AcquiredRecords
from aiokproto.fetched.chunk import DEFAULT_LIMITS, Chunk, DecodeLimits, OpenBatch, chunks
from aiokproto.records import RecordBatch
from aiokproto.share.acknowledgement import Acknowledgement
from aiokproto.share.ledger import AcquisitionLock, ShareRecord
from aiokproto.types import Header, TimestampType, TopicPartition

_FAST = 4
"""The records of a fetch were taken fast if that took less than the lock's duration divided by this."""


class AcquiredRange(NamedTuple):
    """Offsets acquired by one fetch, and how often their records were delivered, including this time."""

    first: int
    last: int
    delivery_count: int


class Offsets(NamedTuple):
    """Consecutive offsets, both ends inclusive."""

    first: int
    last: int


class FetchedPart:
    """The acquired records of one partition in one response.

    Attributes:
        lock: The lock on these records.
        ranges: The acquired offsets.
        position: The offset after the opened records.
        opened: Opened records, last record first.
        opening: The batch that a thread is decoding or has decoded, and the future for its result.
        reading: The first batch, which may already be partly open; None until it's first needed.
        delivered: The number of delivered records.
        reported: How many of these were reported to the hooks.
        size: The number of bytes that aren't decoded yet.
    """

    __slots__ = (
        "_check_crcs",
        "_chunk",
        "_uncut",
        "delivered",
        "lock",
        "opened",
        "opening",
        "position",
        "ranges",
        "reading",
        "reported",
        "size",
    )

    def __init__(
        self,
        lock: AcquisitionLock,
        ranges: Sequence[AcquiredRange],
        data: memoryview,
        check_crcs: bool = True,
        limits: DecodeLimits = DEFAULT_LIMITS,
    ) -> None:
        self.lock = lock
        self.ranges = ranges
        self.position = ranges[0].first
        # A chunk is cut once the previous chunk is open: the response may contain a large number of batches.
        self._uncut = chunks(lock.acquired.partition, self.position, data, (), check_crc=check_crcs, limits=limits)
        self._check_crcs = check_crcs
        self._chunk: Chunk | None = None
        self.opened: list[ShareRecord] = []
        self.opening: tuple[OpenAcquired, Any] | None = None
        self.reading: OpenAcquired | None = None
        self.delivered = self.reported = 0
        self.size = len(data)

    def undelivered(self) -> list[AcquiredRange]:
        """Return the remaining acquired ranges that aren't acknowledged."""
        # Return each opened record as a separate range: the offsets between them are already acknowledged as gaps, and
        # a broker rejects a request that acknowledges an offset twice.
        opened = [
            AcquiredRange(record.offset, record.offset, record.delivery_count)
            for record in reversed(self.opened)
            if record.acknowledgement is None
        ]
        rest = (each._replace(first=max(each.first, self.position)) for each in self.ranges)
        return opened + [each for each in rest if each.first <= each.last]

    @property
    def chunk(self) -> Chunk | None:
        """The first chunk with something to open, if any."""
        while self._chunk is None or self._chunk.exhausted:
            self._chunk = next(self._uncut, None)
            if self._chunk is None:
                return None
        return self._chunk

    def skip_chunk(self) -> None:
        """Skip the first chunk, which is damaged."""
        self._chunk = None

    def read(self) -> OpenAcquired:
        """Return the first batch of the first chunk, which may already be partly open."""
        if self.reading is None:
            assert self.chunk is not None
            batch = self.chunk.batches[0]
            self.reading = OpenAcquired(batch, self.lock, self.ranges, self.position, self._check_crcs)
        return self.reading

    def take(self, records: Sequence[ShareRecord]) -> list[Offsets]:
        """Take the slice of the first batch that was opened into ``records``. Return the acquired offsets in it that
        have no record."""
        reading = self.read()
        return self.take_batch(records) if reading.ended else self.pass_until(reading.position, records)

    def take_batch(self, records: Sequence[ShareRecord] = ()) -> list[Offsets]:
        """Take the rest of the first batch, which was opened into ``records``. Return the acquired offsets in it that
        have no record."""
        chunk = self.chunk
        assert chunk is not None
        self.reading = None
        self.size = max(self.size - chunk.batches[0].size_in_bytes, 0)
        return self.pass_until(chunk.take(), records)

    def pass_until(self, end: int | None, records: Sequence[ShareRecord] = ()) -> list[Offsets]:
        """Move the position to ``end``, or past everything if None. Return the acquired offsets before it that have no
        record."""
        start = self.position
        self.position = self.ranges[-1].last + 1 if end is None else max(end, start)
        self.opened = list(reversed(records))
        return list(missing(self.ranges, start, self.position, (record.offset for record in records)))


class AcquireLimit:
    """How many records to acquire with one request. It adapts to how fast the application takes them.

    Each time the lock of a buffered record expires, that uses up one of the record's deliveries, even though the
    application hasn't seen it. If processing is slow and the number of records fixed, this would archive records that
    no member has processed.

    Attributes:
        most: The application's limit, ``max_poll_records``.
        current: The current limit.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.current = most

    def expired(self, delivered: int) -> None:
        """Note that locks have expired in the buffer after this many records of the fetch were delivered."""
        self.current = max(1, min(self.current, delivered) * 3 // 4)

    def taken(self, elapsed: float, duration: float) -> None:
        """Note that all records of a fetch were delivered ``elapsed`` seconds into their lock's ``duration``."""
        if elapsed * _FAST < duration:
            self.current = min(2 * self.current, self.most)


class ShareBuffer:
    """All fetched parts, in order of arrival."""

    def __init__(self, limit: AcquireLimit) -> None:
        self._parts: deque[FetchedPart] = deque()
        self._limit = limit

    def __bool__(self) -> bool:
        """Whether there is anything to deliver or open."""
        return bool(self._parts)

    def put(self, part: FetchedPart) -> None:
        """Append a part."""
        self._parts.append(part)

    @property
    def first(self) -> FetchedPart | None:
        """The first part, even if its lock is no longer held."""
        return self._parts[0] if self._parts else None

    def head(self, now: float) -> FetchedPart | None:
        """Return the part to deliver next, if any."""
        self.drop_lost(now)
        return self._parts[0] if self._parts else None

    def finished(self, part: FetchedPart, now: float) -> None:
        """Note that a part is delivered."""
        if part not in self._parts:
            return
        self._parts.remove(part)
        self._limit.taken(now - part.lock.granted_at, part.lock.deadline - part.lock.granted_at)

    def drop_lost(self, now: float) -> None:
        """Drop the parts whose lock is no longer held."""
        if all(part.lock.failure(now) is None for part in self._parts):
            return
        kept: deque[FetchedPart] = deque()
        for part in self._parts:
            if part.lock.failure(now) is None:
                kept.append(part)
            elif part.lock.acquired.lost is None:
                self._limit.expired(part.delivered)
        self._parts = kept

    def release_if(self, unwanted: Callable[[FetchedPart], bool], now: float) -> None:
        """Release the records of ``unwanted`` parts instead of delivering them."""
        removed = [part for part in self._parts if unwanted(part)]
        self._parts = deque(part for part in self._parts if part not in removed)
        for part in removed:
            release(part.lock, part.undelivered(), now)

    def sizes(self) -> dict[TopicPartition, int]:
        """Return the number of bytes that aren't decoded yet, by partition."""
        sizes: dict[TopicPartition, int] = {}
        for part in self._parts:
            partition = part.lock.acquired.partition
            sizes[partition] = sizes.get(partition, 0) + part.size
        return sizes

    def next_check(self, now: float) -> float | None:
        """Return the loop time when the next buffered lock expires, or is due for renewal if some of its records were
        delivered; None if there is no buffered lock."""
        times = (part.lock.renew_at if part.lock.renew_at > now else part.lock.deadline for part in self._parts)
        return min(times, default=None)


class ShareRecordMaker:
    """A `Make` (see ``records.record``) for the acquired records of one batch. It returns None for other members'
    records.

    Attributes:
        latest: The offset of the last record that was read, even if it's another member's; -1 before the first record.
    """

    def __init__(
        self,
        lock: AcquisitionLock,
        ranges: Sequence[AcquiredRange],
        timestamp_type: TimestampType,
        leader_epoch: int,
    ) -> None:
        """``ranges`` are in order of offsets."""
        self._topic, self._partition = lock.acquired.partition
        self._lock = lock
        self._ranges = ranges
        self._at = 0
        self.latest = -1
        self._timestamp_type = timestamp_type
        self._leader_epoch = leader_epoch

    def __call__(
        self, offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: tuple[Header, ...]
    ) -> ShareRecord | None:
        """Return a record, or None if it isn't acquired. Call this in order of offsets."""
        self.latest = offset
        ranges = self._ranges
        while self._at < len(ranges) and ranges[self._at].last < offset:
            self._at += 1
        if self._at == len(ranges) or offset < ranges[self._at].first:
            return None
        return ShareRecord(
            self._topic,
            self._partition,
            offset,
            timestamp,
            key,
            value,
            headers,
            self._timestamp_type,
            self._leader_epoch,
            ranges[self._at].delivery_count,
            self._lock,
        )


class OpenAcquired(OpenBatch["ShareRecord | None"]):
    """The acquired records of a batch, starting at a position."""

    __slots__ = ("_make",)

    def __init__(
        self,
        batch: RecordBatch,
        lock: AcquisitionLock,
        ranges: Sequence[AcquiredRange],
        position: int,
        check_crcs: bool,
    ) -> None:
        at = bisect_left(ranges, position, key=attrgetter("last"))
        self._make = ShareRecordMaker(lock, ranges[at:], batch.timestamp_type, batch.partition_leader_epoch)
        super().__init__(batch, batch.slices(self._make, check_crc=check_crcs), position)

    def read(self) -> list[ShareRecord]:
        """Decode the next slice, in order. Raises the same errors as :meth:`read_all`."""
        position = self.position
        found = [record for record in self.read_all() if record is not None and record.offset >= position]
        if not self.ended:
            self.passed(self._make.latest)
        return found


def release(lock: AcquisitionLock, ranges: Iterable[AcquiredRange], now: float) -> None:
    """Release acquired records that aren't delivered."""
    for acquired in ranges:
        lock.acquired.acknowledge_undelivered(acquired.first, acquired.last, Acknowledgement.RELEASE, lock, None, now)


def acquired_ranges(acquired: Iterable[AcquiredRecords]) -> list[AcquiredRange]:
    """Return the acquired ranges of a response in order, without overlapping or empty ranges."""
    ranges: list[AcquiredRange] = []
    for records in sorted(acquired, key=attrgetter("first_offset")):
        first = max(records.first_offset, ranges[-1].last + 1 if ranges else 0)
        if first <= records.last_offset:
            ranges.append(AcquiredRange(first, records.last_offset, max(records.delivery_count, 1)))
    return ranges


def missing(ranges: Sequence[AcquiredRange], start: int, end: int, offsets: Iterable[int]) -> Iterator[Offsets]:
    """Yield the acquired offsets from ``start`` to ``end`` (exclusive) that aren't in ``offsets``, which must
    ascend."""
    present = iter(offsets)
    offset = next(present, end)
    for acquired in ranges:
        at, last = max(acquired.first, start), min(acquired.last, end - 1)
        while at <= last:
            while offset < at:
                offset = next(present, end)
            if at < offset:
                yield Offsets(at, min(last, offset - 1))
            at = max(offset, at) + 1
