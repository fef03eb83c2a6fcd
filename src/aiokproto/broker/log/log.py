"""The log of one partition."""

from __future__ import annotations

import shutil
from bisect import bisect_right
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from aiokproto.broker.log.epochs import EpochEnd, LeaderEpochs
from aiokproto.broker.log.header import BatchHeader, Buffer
from aiokproto.broker.log.producers import ProducerStates
from aiokproto.broker.log.segment import Segment
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.records import patch
from aiokproto.records.batch import RecordBatch
from aiokproto.types import OffsetAndTimestamp

_MAX_RELATIVE = (1 << 31) - 1


@dataclass(frozen=True)
class LogConfig:
    """What a log is told by its topic's configuration. Times in ms, sizes in bytes; -1 is "no limit"."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 86_400_000
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * 86_400_000
    retention_bytes: int = -1
    flush_messages: int = (1 << 63) - 1
    append_time: bool = False
    """LogAppendTime: the broker's clock, not the producer's, stamps the records."""


class Appended(NamedTuple):
    """Where a batch is. ``timestamp`` (ms) is -1 unless the broker's clock set it."""

    base_offset: int
    last_offset: int
    timestamp: int
    duplicate: bool


class Span(NamedTuple):
    """Whole batches in a row, found but not read yet."""

    segment: Segment
    position: int
    size: int

    def read(self) -> bytes:
        """The batches."""
        return self.segment.read(self.position, self.size) if self.size else b""


class Log:
    """A directory of segments.

    Attributes:
        start_offset: First offset that can be read.
        end_offset: Offset that the next record gets.
    """

    def __init__(self, directory: Path, config: LogConfig, now: int = 0) -> None:
        """Open the log in ``directory``, which need not exist: the first append creates it.

        The newest segment is read whole and cut where it stops being valid. ``now`` (ms) counts as the time when the
        producers found in the log were last seen.
        """
        self.directory = directory
        self.config = config
        self._producers = ProducerStates()
        self._epochs = LeaderEpochs(directory / "leader-epoch-checkpoint")
        self._start_path = directory / "log-start-offset-checkpoint"
        self._unflushed = 0
        self._segments = self._load()
        self._bases = [segment.base_offset for segment in self._segments]
        self.start_offset = min(max(self._bases[0], self._saved_start()), self.end_offset)
        self._epochs.load(self.end_offset)
        for segment in self._segments:
            for header in segment.scan_headers():
                self._noted(header, now)

    @property
    def end_offset(self) -> int:
        return self._segments[-1].next_offset

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self._segments)

    # ---- writing

    def append(self, batch: Buffer, leader_epoch: int, now: int) -> Appended:
        """Give the batch its offsets and write it.

        Args:
            batch: A batch of magic 2, checked already. It is copied.
            leader_epoch: The epoch to stamp it with.
            now: The time (ms).

        Raises:
            BrokerError: The batch is not what its producer should send next.
        """
        header = BatchHeader.read(batch)
        if header.has_sequence and (known := self._producers.check(header)):
            timestamp = known.timestamp if self.config.append_time else -1
            return Appended(known.base_offset, known.last_offset, timestamp, duplicate=True)
        data = bytearray(batch)
        patch.set_base_offset(data, 0, self.end_offset)
        patch.set_leader_epoch(data, 0, leader_epoch)
        if self.config.append_time:
            patch.restamp(data, 0, now)
        header = BatchHeader.read(data)
        segment = self._segment_for(header, now)
        segment.append(data, header)
        self._noted(header, now)
        self._unflushed += header.last_offset - header.base_offset + 1
        if self._unflushed >= self.config.flush_messages:
            self.flush()
        return Appended(header.base_offset, header.last_offset, now if self.config.append_time else -1, duplicate=False)

    def _noted(self, header: BatchHeader, now: int) -> None:
        self._epochs.assign(header.leader_epoch, header.base_offset)
        if header.has_sequence:
            self._producers.appended(header, now)

    def _segment_for(self, header: BatchHeader, now: int) -> Segment:
        segment = self._segments[-1]
        if segment.size and (
            segment.size + header.size > self.config.segment_bytes
            or header.last_offset - segment.base_offset > _MAX_RELATIVE
            or 0 <= segment.first_append <= now - self.config.segment_ms
        ):
            segment = self._roll()
        if segment.first_append < 0:
            segment.first_append = now
        return segment

    def _roll(self) -> Segment:
        self._segments[-1].close()
        segment = Segment(self.directory, self.end_offset, self.config.index_interval_bytes)
        # The name alone keeps the offset when retention has removed everything before.
        segment.create()
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        return segment

    def begin_epoch(self, epoch: int) -> None:
        """A leader with this epoch takes over at the log's end."""
        self._epochs.assign(epoch, self.end_offset)

    # ---- reading

    def find(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> Span:
        """The batches from the one that holds ``offset`` on, within ``max_bytes`` and one segment.

        Args:
            offset: Where to begin.
            max_bytes: Only whole batches that fit are found...
            at_least_one: ... but the first one, however large, so that a reader can get on (KIP-74).

        Raises:
            BrokerError: OFFSET_OUT_OF_RANGE.
        """
        self._check_range(offset)
        at = bisect_right(self._bases, offset) - 1
        for segment in self._segments[at:]:
            position = segment.position_of(offset)
            if position < segment.size:
                size = segment.length_within(position, max_bytes)
                if not size and at_least_one:
                    size = segment.header_at(position).size
                return Span(segment, position, size)
        return Span(self._segments[-1], 0, 0)

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> bytes:
        """As :meth:`find`, and read."""
        return self.find(offset, max_bytes, at_least_one=at_least_one).read()

    def _check_range(self, offset: int) -> None:
        if not self.start_offset <= offset <= self.end_offset:
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                detail=f"offset {offset} is not within {self.start_offset} to {self.end_offset}",
            )

    def offset_at_time(self, timestamp: int) -> OffsetAndTimestamp | None:
        """The first record at or after a time (ms), or None."""
        for segment in self._segments:
            offset = max(self.start_offset, segment.base_offset)
            if segment.max_timestamp < timestamp or segment.next_offset <= offset:
                continue
            while found := segment.batch_at_time(timestamp, offset):
                position, header = found
                for record in RecordBatch(segment.read(position, header.size)):
                    if record.timestamp >= timestamp and record.offset >= offset:
                        epoch = self._epochs.of_offset(record.offset)
                        return OffsetAndTimestamp(record.offset, record.timestamp, epoch)
                offset = header.last_offset + 1
        return None

    def offset_of_max_timestamp(self) -> OffsetAndTimestamp | None:
        """The first record with the greatest timestamp (KIP-734), or None."""
        newest = max(segment.max_timestamp for segment in self._segments)
        return self.offset_at_time(newest) if newest >= 0 else None

    def epoch_of(self, offset: int) -> int:
        """The leader epoch in which the record at ``offset`` was written; -1 if unknown."""
        return self._epochs.of_offset(offset)

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """Where the greatest epoch up to ``epoch`` ends (KIP-320)."""
        return self._epochs.end_of(epoch, self.end_offset)

    # ---- removing

    def delete_before(self, offset: int) -> None:
        """Advance the start of the log; segments wholly before it are removed.

        Raises:
            BrokerError: OFFSET_OUT_OF_RANGE, if the log does not reach that far.
        """
        if offset > self.end_offset or offset < 0:
            self._check_range(offset)
        if offset <= self.start_offset:
            return
        self.start_offset = offset
        if self.directory.exists():
            self._start_path.write_text(f"{offset}\n")
        while len(self._segments) > 1 and self._segments[0].next_offset <= offset:
            self._segments.pop(0).delete()
            del self._bases[0]
        self._epochs.truncate_start(offset)

    def retain(self, now: int) -> None:
        """Remove the segments which the configuration no longer keeps, oldest first. ``now`` in ms."""
        config = self.config
        excess = self.size - config.retention_bytes if config.retention_bytes >= 0 else 0
        keep_from = self.start_offset
        for segment in list(self._segments):
            too_old = config.retention_ms >= 0 and segment.max_timestamp < now - config.retention_ms
            too_much = 0 < segment.size <= excess
            if not segment.size or not (too_old or too_much):
                break
            excess -= segment.size
            keep_from = segment.next_offset
        if keep_from > self.start_offset:
            if keep_from == self.end_offset and self._segments[-1].size:
                self._roll()
            self.delete_before(keep_from)

    def forget_producers(self, before: int) -> None:
        """Forget idempotent producers not seen since ``before`` (ms)."""
        self._producers.expire(before)

    def abandon(self) -> None:
        """Close the files, and write nothing more: the directory is about to be removed."""
        for segment in self._segments:
            segment.abandon()

    def delete(self) -> None:
        """Close and remove the whole directory."""
        self.abandon()
        shutil.rmtree(self.directory, ignore_errors=True)

    # ---- keeping

    def flush(self) -> None:
        """Have everything on disk."""
        self._unflushed = 0
        self._segments[-1].flush()

    def close(self) -> None:
        """Have the newest segment on disk, write the indexes and close the files."""
        self.flush()
        for segment in self._segments:
            segment.close()
        if self.directory.exists():
            self._epochs.save()

    def _load(self) -> list[Segment]:
        bases = sorted(int(path.stem) for path in self.directory.glob("*.log") if path.stem.isdecimal())
        interval = self.config.index_interval_bytes
        if not bases:
            return [Segment(self.directory, 0, interval)]
        segments = [Segment.load(self.directory, base, after, interval) for base, after in pairwise(bases)]
        newest = Segment(self.directory, bases[-1], interval)
        newest.recover()
        return [*segments, newest]

    def _saved_start(self) -> int:
        try:
            return int(self._start_path.read_text())
        except (OSError, ValueError):
            return 0
