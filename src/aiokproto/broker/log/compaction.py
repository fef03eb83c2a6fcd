"""Compacts a log: selects the segments, and writes the cleaned ones. It doesn't use asyncio: the caller runs it step by
step.

The broker serves requests between steps. A thread reads and rewrites records, because a batch of a few kilobytes can
contain millions. Whatever reads or changes the log's state runs in the event loop. Each step yields where the next one
has to run.

Cleaned segments are written next to the old ones with the suffix ``.cleaned``, flushed, and swapped in by
:meth:`Log.replace`, so readers, or a restart after a crash, see either the old segments or the new one. The active
segment is never compacted, nor are segments past the last stable offset, because the outcome of their transactions
isn't known yet.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TypeVar

from aiokproto.broker.log.cleaner import (
    CleanedTransactionMetadata,
    Cleaner,
    LastRecord,
    OffsetMap,
    build_offset_map,
)
from aiokproto.broker.log.config import LogConfig
from aiokproto.broker.log.fsync import sync
from aiokproto.broker.log.header import BatchHeader
from aiokproto.broker.log.log import Log
from aiokproto.broker.log.segment import CLEANED, Segment
from aiokproto.records import RecordBatch

T = TypeVar("T")

KEY_BYTES = 160
"""The estimated memory of one entry of the offset map."""

_BY_LOOP, _BY_THREAD = False, True
# How many bytes to read between two yields to the event loop, which serves other requests in between.
_STEP_BYTES = 256 << 10
# Indexes store offsets relative to the segment's base as int32.
_MAX_RELATIVE = (1 << 31) - 1


class Compaction:
    """One compaction of a log.

    Attributes:
        ratio: The dirty ratio: the share of bytes that haven't been compacted yet, among all bytes that can be
            compacted.
    """

    def __init__(self, log: Log, now: int) -> None:
        """Select the segments that can be compacted. ``now`` is in ms."""
        self._log = log
        self._now = now
        # Retention may have removed records that compaction hadn't reached.
        self._start = log.cleaned_to if log.cleaned_to >= log.start_offset else log.start_offset
        self._segments = list(self._cleanable())
        # Segments that end before the start are clean, since all their records have been compacted.
        dirty = [segment for segment in self._segments if segment.next_offset > self._start]
        size = sum(segment.size for segment in dirty)
        clean = sum(segment.size for segment in self._segments) - size
        self._dirty = dirty
        self.ratio = size / (size + clean) if size else 0.0

    def _cleanable(self) -> Iterator[Segment]:
        log, lag = self._log, self._log.config.min_compaction_lag_ms
        for segment in log.segments[:-1]:
            dirty = segment.next_offset > self._start
            # Stop here instead of skipping the segment: ``cleaned_to`` is one offset, so the compacted part can't have
            # holes.
            if segment.next_offset > log.last_stable_offset:
                return
            # A segment has to wait until all of its records are older than min.compaction.lag.ms, so its greatest
            # timestamp counts.
            if lag and dirty and segment.age_timestamp > self._now - lag:
                return
            yield segment

    @property
    def due(self) -> bool:
        """Whether the log is due by ``min.cleanable.dirty.ratio`` or ``max.compaction.lag.ms``."""
        if self.ratio > self._log.config.min_cleanable_dirty_ratio:
            return True
        before = self._now - self._log.config.max_compaction_lag_ms
        return any(segment.size and 0 <= segment.first_timestamp < before for segment in self._dirty)

    def run(self, memory: int) -> Generator[bool, None, None]:
        """Compact the log in short steps. Between steps the log can be read, appended to, and truncated by retention.

        Yields:
            Whether the next step may run in another thread. It must have finished before the generator is closed.

        Args:
            memory: Maximum size of the offset map in bytes (``log.cleaner.dedupe.buffer.size``). If the map gets full,
                only the part that it covers is compacted, and the next run continues there.
        """
        if not self._dirty:
            return
        log, end = self._log, self._segments[-1].next_offset
        aborted = log.aborted_transactions(self._start, end)
        offsets, transactions = OffsetMap(max(memory // KEY_BYTES, 1)), CleanedTransactionMetadata(aborted)
        complete = True
        for segment in self._dirty:
            for batches in _batches_in_steps(segment):
                yield _BY_THREAD
                # Once the map is full, the rest is left to the next run.
                if complete:
                    steps = build_offset_map(batches, self._start, offsets, transactions)
                    complete = yield from _by_thread(steps)
        yield _BY_LOOP
        if complete:
            # The range may end in a gap left by an earlier compaction.
            offsets.latest = end - 1
        # The second pass starts over at the first segment, so it needs all aborted transactions and fresh state.
        aborted = log.aborted_transactions(0, end)
        transactions = CleanedTransactionMetadata(aborted)
        cleaner = Cleaner(offsets, transactions, self._producers(), end, self._now, log.config.delete_retention_ms)
        reached = [segment for segment in self._segments if segment.base_offset <= offsets.latest]
        clean = [segment for segment in self._segments if segment not in self._dirty]
        horizon = clean[-1].modified - log.config.delete_retention_ms if clean else 0
        for group in _group_segments(reached, log.config):
            yield from self._clean(group, cleaner, transactions, horizon)
        # This comes last: if the run is cancelled before, the next one starts at the same offset. Cleaning a segment
        # twice is harmless.
        log.cleaned_to = offsets.latest + 1

    def _producers(self) -> dict[int, LastRecord]:
        return {
            producer.producer_id: LastRecord(
                producer.epoch, producer.batches[-1].last_offset if producer.batches else None
            )
            for producer in self._log.producers
        }

    def _clean(
        self, group: list[Segment], cleaner: Cleaner, transactions: CleanedTransactionMetadata, horizon: int
    ) -> Iterator[bool]:
        log, modified = self._log, group[-1].modified
        cleaned = Segment(log.directory, group[0].base_offset, log.config.index_interval_bytes, CLEANED)
        # A cancelled compaction may have left a file.
        cleaned.remove()
        cleaned.create()
        try:
            for segment in group:
                # Magic 0 and 1 can't contain a delete horizon. Instead, Kafka uses the file's modification time.
                expired = segment.modified <= horizon
                for batches in _batches_in_steps(segment):
                    yield _BY_THREAD
                    for batch in batches:
                        data = yield from _by_thread(cleaner.clean(batch, expired=expired))
                        if data is not None:
                            cleaned.append(data, BatchHeader.read(data))
            yield _BY_LOOP
            for aborted in transactions.retained:
                cleaned.note_aborted(aborted)
            transactions.retained.clear()
            cleaned.close()
            # Flush the files before they are renamed to ``.swap``: after that, the sources are deleted, and a power
            # failure must not destroy both.
            sync(cleaned.files())
            # If records have no timestamp, retention by time uses the file's modification time. Compaction must not
            # make them look newer.
            cleaned.modified = modified
        except BaseException:
            cleaned.remove()
            raise
        log.replace(group, cleaned, self._now)


def _by_thread(steps: Generator[None, None, T]) -> Generator[bool, None, T]:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        yield _BY_THREAD


def _batches_in_steps(segment: Segment) -> Iterator[list[RecordBatch]]:
    """Yield the batches of a segment in lists of about 256 KB. Each list is one step."""
    portion: list[RecordBatch] = []
    size = 0
    for batch in segment.batches():
        portion.append(batch)
        size += batch.size_in_bytes
        if size >= _STEP_BYTES:
            yield portion
            portion, size = [], 0
    yield portion


def _group_segments(segments: list[Segment], config: LogConfig) -> Iterator[list[Segment]]:
    """Group adjacent segments that together fit into one segment, so compaction reduces the number of files."""
    group: list[Segment] = []
    for segment in segments:
        if group and (
            sum(each.size for each in group) + segment.size > config.segment_bytes
            or sum(each.index_bytes for each in group) + segment.index_bytes > config.segment_index_bytes
            or segment.next_offset - group[0].base_offset > _MAX_RELATIVE
        ):
            yield group
            group = []
        group.append(segment)
    if group:
        yield group
