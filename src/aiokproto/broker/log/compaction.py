"""Compacting a log: which of its segments are due, and how what is kept of them takes their place. No asyncio.

Readers are not disturbed: segments are written beside the old ones, and replace them in one step. The newest segment
is never touched, nor what open transactions may still change.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator

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

KEY_BYTES = 160
"""What a key takes in memory while a log is compacted."""

_STEP_BYTES = 256 << 10
_MAX_RELATIVE = (1 << 31) - 1


class Compaction:
    """A log that is to be compacted, and how far.

    Attributes:
        ratio: Bytes that were never compacted, of all that can be.
    """

    def __init__(self, log: Log, now: int) -> None:
        """Find out what could be done; ``now`` in ms."""
        self._log = log
        self._now = now
        self._start = log.cleaned_to if log.cleaned_to >= log.start_offset else log.start_offset
        self._segments = list(self._cleanable())
        # In a segment that ends before this nothing is new.
        dirty = [segment for segment in self._segments if segment.next_offset > self._start]
        size = sum(segment.size for segment in dirty)
        clean = sum(segment.size for segment in self._segments) - size
        self._dirty = dirty
        self.ratio = size / (size + clean) if size else 0.0

    def _cleanable(self) -> Iterator[Segment]:
        log, lag = self._log, self._log.config.min_compaction_lag_ms
        for segment in log.segments[:-1]:
            dirty = segment.next_offset > self._start
            if segment.next_offset > log.last_stable_offset:
                return
            if lag and dirty and segment.age_timestamp > self._now - lag:
                return
            yield segment

    @property
    def due(self) -> bool:
        """Whether it is worth while by ``min.cleanable.dirty.ratio``, or overdue by ``max.compaction.lag.ms``."""
        if self.ratio > self._log.config.min_cleanable_dirty_ratio:
            return True
        before = self._now - self._log.config.max_compaction_lag_ms
        return any(segment.size and 0 <= segment.first_timestamp < before for segment in self._dirty)

    def run(self, memory: int) -> Generator[None, None, None]:
        """Compact the log, step by step; between steps others may do with it whatever they like.

        Args:
            memory: Bytes that the newest offsets of all keys may take. If they do not suffice, a part is compacted, and
                the rest is left for another time.
        """
        if not self._dirty:
            return
        log, end = self._log, self._segments[-1].next_offset
        aborted = log.aborted_transactions(self._start, end)
        offsets, transactions = OffsetMap(max(memory // KEY_BYTES, 1)), CleanedTransactionMetadata(aborted)
        complete = True
        for segment in self._dirty:
            for batches in _portions(segment):
                complete = complete and build_offset_map(batches, self._start, offsets, transactions)
                yield
        if complete:
            offsets.latest = end - 1
        aborted = log.aborted_transactions(0, end)
        transactions = CleanedTransactionMetadata(aborted)
        cleaner = Cleaner(offsets, transactions, self._producers(), end, self._now, log.config.delete_retention_ms)
        reached = [segment for segment in self._segments if segment.base_offset <= offsets.latest]
        clean = [segment for segment in self._segments if segment not in self._dirty]
        horizon = clean[-1].modified - log.config.delete_retention_ms if clean else 0
        for group in _groups(reached, log.config):
            yield from self._clean(group, cleaner, transactions, horizon)
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
    ) -> Iterator[None]:
        log, modified = self._log, group[-1].modified
        cleaned = Segment(log.directory, group[0].base_offset, log.config.index_interval_bytes, CLEANED)
        # One may have been left there by a compaction that was broken off.
        cleaned.remove()
        cleaned.create()
        try:
            for segment in group:
                # Magic 0 and 1 have no place for a delete horizon: there Kafka goes by the age of the file.
                expired = segment.modified <= horizon
                for batches in _portions(segment):
                    for batch in batches:
                        data = cleaner.clean(batch, expired=expired)
                        if data is not None:
                            cleaned.append(data, BatchHeader.read(data))
                    yield
            for aborted in transactions.retained:
                cleaned.note_aborted(aborted)
            transactions.retained.clear()
            cleaned.close()
            sync(cleaned.files())
            cleaned.modified = modified
        except BaseException:
            cleaned.remove()
            raise
        log.replace(group, cleaned, self._now)


def _portions(segment: Segment) -> Iterator[list[RecordBatch]]:
    """The batches of a segment, in lists that do not take long."""
    portion: list[RecordBatch] = []
    size = 0
    for batch in segment.batches():
        portion.append(batch)
        size += batch.size_in_bytes
        if size >= _STEP_BYTES:
            yield portion
            portion, size = [], 0
    yield portion


def _groups(segments: list[Segment], config: LogConfig) -> Iterator[list[Segment]]:
    """Neighbours that together are no larger than one segment may be."""
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
