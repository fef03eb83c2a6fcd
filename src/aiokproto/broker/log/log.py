"""The log of one partition: appends, reads, retention, and the swap of compacted segments (Kafka's UnifiedLog)."""

from __future__ import annotations

import shutil
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from aiokproto.broker.log import partition_metadata, producer_snapshots
from aiokproto.broker.log.config import LogAppendInfo, LogCheckpoint, LogConfig, Span
from aiokproto.broker.log.fsync import UnflushedFiles
from aiokproto.broker.log.header import BatchHeader, Buffer
from aiokproto.broker.log.leader_epoch_cache import EpochEnd, LeaderEpochCache
from aiokproto.broker.log.log_loader import open_producers, open_segments, save_producers
from aiokproto.broker.log.producer_state import ProducerStateManager
from aiokproto.broker.log.segment import DELETED, SWAP, Segment
from aiokproto.broker.log.stored import open_stored
from aiokproto.codec.payloads.transactions import AbortedTxn
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.records import patch
from aiokproto.records.batch import CONTROL, RecordBatch
from aiokproto.records.control import EndTransaction, parse_end_transaction
from aiokproto.runtime import current

DELETED_DIRECTORY = "-delete"
"""The suffix of a directory whose log was deleted. If a crash leaves such a directory, the next start removes it."""

_MAX_RELATIVE = (1 << 31) - 1
"""Maximum offset relative to a segment's base offset: the index files store it as an int32."""

# The size of an entry in the time index, which is the larger of the two indexes.
_INDEX_ENTRY = 12


class Log:
    """A directory of segments.

    Attributes:
        start_offset: The first offset that can be read.
        end_offset: The offset that the next record gets.
        recovery_point: Everything before this offset has been flushed to disk.
        cleaned_to: Everything before this offset has been compacted.
        producers: The state of idempotent and transactional producers.
        segments: The segments, oldest first; the last one is active. Only the log changes them.
        on_roll: Called with the log after a new segment was rolled: older segments can now be flushed.
    """

    def __init__(
        self,
        directory: Path,
        config: LogConfig,
        now: int = 0,
        checkpoint: LogCheckpoint = LogCheckpoint(),  # noqa: B008
        topic_id: bytes | None = None,
    ) -> None:
        """Open the log in ``directory``, which need not exist: the first append creates it.

        Args:
            directory: The partition's directory.
            config: The log's configuration.
            now: The current time (ms). Producers found in the log count as last seen now.
            checkpoint: The log's entries in the checkpoint files. If there are none, every segment is recovered.
            topic_id: The topic's id, which ``partition.metadata`` must match, or None to skip this check.

        Raises:
            ConfigurationError: The directory belongs to another topic.
        """
        self.on_roll: Callable[[Log], None] = lambda log: None
        self._topic_id = topic_id
        if topic_id is not None and directory.exists():
            partition_metadata.claim(directory, topic_id)
        self.directory = directory
        self.config = config
        self.producers = ProducerStateManager()
        self._epochs = LeaderEpochCache(directory / "leader-epoch-checkpoint")
        # Open segments before epochs and producers: recovery can truncate the log, and both must match, or are rebuilt
        # from, what remains.
        self.segments = open_segments(directory, config, checkpoint)
        self._bases = [segment.base_offset for segment in self.segments]
        self._jitter = self._new_jitter()
        self._deleted: deque[tuple[int, Segment]] = deque()
        self._flushed_at = now
        # A checkpoint can be older than the files: retention may have removed segments since, or recovery may have
        # truncated the log.
        self.start_offset = min(max(self._bases[0], checkpoint.start_offset), self.end_offset)
        self.recovery_point = (
            self.end_offset if checkpoint.clean_shutdown else min(checkpoint.recovery_point, self.end_offset)
        )
        # If the checkpoint is past the end, the log has been truncated since. Records appended there later haven't been
        # compacted, so the whole log counts as dirty.
        self.cleaned_to = checkpoint.cleaned_to if checkpoint.cleaned_to <= self.end_offset else 0
        # If a log doesn't contain records, it's normal that the file is missing, and there are no epochs to rebuild.
        if not self._epochs.load(self.end_offset) and self.end_offset:
            self._epochs.rebuild(self._batch_epochs())
        self._replay(now)

    def _batch_epochs(self) -> Iterator[tuple[int, int]]:
        for segment in self.segments:
            for _, header in segment.scan_headers():
                yield header.leader_epoch, header.base_offset

    def _replay(self, now: int) -> None:
        replay_from = open_producers(self.directory, self.segments, self.producers, now)
        for segment in self.segments:
            # This isn't stored in a file. It matters only for records without timestamps: after a restart, their
            # segment rolls late.
            segment.created = now
            if segment.base_offset < replay_from:
                continue
            # Older segments had to be replayed because their snapshots are missing. The next start must not have to do
            # that again.
            if segment is self.segments[-1] and segment.base_offset > replay_from:
                save_producers(self.directory, self.segments, self.producers)
            for position, header in segment.scan_headers():
                # Replaying reads only headers, except for markers: their type is in the record.
                control = header.attributes & CONTROL
                marker = _marker(header, segment.read(position, header.size)) if control else None
                self._update_state(segment, header, now, marker)

    @property
    def end_offset(self) -> int:
        return self.segments[-1].next_offset

    @property
    def checkpoint(self) -> LogCheckpoint:
        """The log's entries for the checkpoint files.

        The start offset is 0 (no entry) unless it's inside the first segment. Only the checkpoint records that
        DeleteRecords has removed the records before it.
        """
        start = self.start_offset if self.start_offset > self._bases[0] else 0
        return LogCheckpoint(start, self.recovery_point, self.cleaned_to)

    @property
    def last_stable_offset(self) -> int:
        """The offset of the oldest open transaction, or the end of the log: ``read_committed`` consumers read only to
        this offset."""
        unstable = self.producers.first_unstable_offset
        # DeleteRecords can remove the first records of an open transaction, which then starts before the log.
        return self.end_offset if unstable is None else max(unstable, self.start_offset)

    @property
    def size(self) -> int:
        """The size of all segments in bytes."""
        return sum(segment.size for segment in self.segments)

    # ---- writing

    def append(self, batch: Buffer, leader_epoch: int, now: int) -> LogAppendInfo:
        """Assign offsets to a batch and write it to the active segment.

        Args:
            batch: A batch of magic 2 that ``validation`` has checked. It is copied.
            leader_epoch: The leader epoch to write into it.
            now: The current time (ms). Raises:
            BrokerError: The producer's epoch, sequence number or transaction state doesn't allow the batch: see
                :meth:`ProducerStateManager.check`.
        """
        # The batch is copied because it's a view of the request's frame. The CRC of magic 2 doesn't cover the base
        # offset and the leader epoch, so it stays valid. restamp() recomputes it.
        data = bytearray(batch)
        patch.set_base_offset(data, 0, self.end_offset)
        patch.set_leader_epoch(data, 0, leader_epoch)
        # With LogAppendTime, consumers use the batch's greatest timestamp for all its records (KIP-32). The records
        # themselves keep the producer's timestamps.
        if self.config.append_time:
            patch.restamp(data, 0, now)
        header = BatchHeader.read(data)
        marker = _marker(header, data)
        # Check this before writing anything. The response to a duplicate contains the offsets of the original, as if
        # the batch had been appended.
        if header.producer_id >= 0 and (known := self.producers.check(header, marker)):
            # A timestamp of -1 in a Produce response means that the producer's own timestamps are valid.
            timestamp = known.timestamp if self.config.append_time else -1
            return LogAppendInfo(known.base_offset, known.last_offset, timestamp, duplicate=True)
        segment = self._segment_for(header, now)
        # Write the batch before updating the state: if the disk is full, the producer's retry must not be mistaken for
        # a duplicate.
        segment.append(data, header)
        self._update_state(segment, header, now, marker)
        # This is synchronous: flush.messages guarantees that the records are on disk when the response is sent.
        if self.end_offset - self.recovery_point >= self.config.flush_messages:
            self.flush(now)
        self.flush_if_due(now)
        return LogAppendInfo(
            header.base_offset, header.last_offset, now if self.config.append_time else -1, duplicate=False
        )

    def _update_state(self, segment: Segment, header: BatchHeader, now: int, marker: EndTransaction | None) -> None:
        # assign_epoch() has already added the epoch, but couldn't write the file if the log's directory didn't exist
        # yet.
        self._epochs.assign(header.leader_epoch, header.base_offset)
        # Compaction may have emptied a control batch. If so, it contains no marker, and isn't data of the producer
        # either.
        if header.producer_id >= 0 and (marker is not None or not header.attributes & CONTROL):
            aborted = self.producers.appended(header, now, marker)
            if aborted is not None:
                segment.note_aborted(aborted)

    def _segment_for(self, header: BatchHeader, now: int) -> Segment:
        segment, config = self.segments[-1], self.config
        # An empty segment accepts any batch, because a batch larger than segment.bytes needs a segment of its own. The
        # topic id is written before the first record, so that every directory with records has one.
        if not segment.size:
            segment.created = now
            if self._topic_id is not None:
                partition_metadata.claim(self.directory, self._topic_id)
            return segment
        # As in Kafka, a segment's age is the time span of its records' timestamps: if old records are replayed,
        # segments roll by the records' time, not by the time of the replay. If records have no timestamps, it's the
        # segment's age on this broker.
        age = header.max_timestamp - segment.first_timestamp if segment.first_timestamp >= 0 else now - segment.created
        # The active segment is never compacted, so max.compaction.lag.ms (KIP-354) limits its age too.
        longest = min(config.segment_ms, config.max_compaction_lag_ms) if config.compact else config.segment_ms
        if (
            segment.size + header.size > config.segment_bytes
            or header.last_offset - segment.base_offset > _MAX_RELATIVE
            or segment.index_bytes + _INDEX_ENTRY > config.segment_index_bytes
            or age > longest - self._jitter
        ):
            segment = self.roll(now)
        return segment

    def roll(self, now: int) -> Segment:
        """Roll a new active segment, unless the current one is empty. Return the active segment. ``now`` is in ms."""
        newest = self.segments[-1]
        if not newest.size:
            return newest
        # The segment is immutable from now on: closing it writes the final indexes.
        newest.close()
        segment = Segment(self.directory, self.end_offset, self.config.index_interval_bytes)
        segment.created = now
        # Create the file now, not at the first append: if retention removes all older segments, only this file's name
        # preserves the log's end offset.
        segment.create()
        # As in UnifiedLog.roll: recovery then replays only the active segment, not the whole log.
        producer_snapshots.save(self.directory, segment.base_offset, self.producers.snapshot())
        self.segments.append(segment)
        self._bases.append(segment.base_offset)
        self._jitter = self._new_jitter()
        self.on_roll(self)
        return segment

    def _new_jitter(self) -> int:
        # Without segment.jitter.ms, partitions that were created together would all roll at the same moment.
        limit = min(self.config.segment_jitter_ms, self.config.segment_ms)
        return current().random.randrange(limit) if limit > 0 else 0

    def assign_epoch(self, epoch: int) -> None:
        """Record that a leader with this epoch appends, starting at the log's end."""
        self._epochs.assign(epoch, self.end_offset)

    # ---- reading

    def find(self, offset: int, max_bytes: int, *, at_least_one: bool = True, until: int | None = None) -> Span:
        """Locate batches within one segment, starting with the batch that contains ``offset``.

        Args:
            offset: The first offset.
            max_bytes: Maximum number of bytes. Only whole batches are returned.
            at_least_one: Return the first batch even if it's larger than ``max_bytes``, so the consumer makes progress
                (KIP-74).
            until: The offset to stop before, or None to read to the end of the log.

        Raises:
            BrokerError: OFFSET_OUT_OF_RANGE.
        """
        self._check_range(offset)
        until = self.end_offset if until is None else until
        # The index is never -1: offsets before the first segment fail the range check.
        index = bisect_right(self._bases, offset) - 1
        for segment in self.segments[index:]:
            # If compaction has removed all records between ``offset`` and the segment's end, the position is the
            # segment's size. The next record is then in a later segment.
            position = segment.position_of(offset)
            # A batch that contains ``until`` is excluded, because batches aren't split and readers must not see the
            # rest of it yet.
            end = segment.size if segment.next_offset <= until else segment.position_of(until)
            if position < end:
                size = min(segment.length_within(position, max_bytes), end - position)
                if not size and at_least_one:
                    size = segment.header_at(position).size
                return Span(segment, position, size)
        # This isn't an error: a consumer at the end of the log, or of its stable part, waits for more records.
        return Span(self.segments[-1], 0, 0)

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool = True) -> bytes:
        """Read the batches that :meth:`find` finds."""
        return self.find(offset, max_bytes, at_least_one=at_least_one).read()

    def aborted_transactions(self, offset: int, end: int) -> list[AbortedTxn]:
        """Return the aborted transactions with records at or after ``offset`` and before ``end``.

        A transaction is indexed in the segment of its abort marker, which comes after its records. So segments before
        ``offset`` don't have to be searched.
        """
        index = max(bisect_right(self._bases, offset) - 1, 0)
        return [aborted for segment in self.segments[index:] for aborted in segment.aborted.between(offset, end)]

    def _check_range(self, offset: int) -> None:
        if not self.start_offset <= offset <= self.end_offset:
            raise BrokerError(
                ErrorCode.OFFSET_OUT_OF_RANGE,
                detail=f"offset {offset} is not within {self.start_offset} to {self.end_offset}",
            )

    def batch_at_time(self, timestamp: int, offset: int) -> RecordBatch | None:
        """Return the first batch at or after ``offset`` whose greatest timestamp (ms) is at least ``timestamp``, or
        None."""
        for segment in self.segments:
            first = max(offset, self.start_offset, segment.base_offset)
            if segment.max_timestamp < timestamp or segment.next_offset <= first:
                continue
            if found := segment.batch_at_time(timestamp, first):
                position, header = found
                return next(open_stored(segment.read(position, header.size)))
        return None

    @property
    def max_timestamp(self) -> int:
        """The greatest timestamp of all records (ms); -1 if there is none."""
        return max(segment.max_timestamp for segment in self.segments)

    def epoch_of(self, offset: int) -> int:
        """Return the leader epoch in which the record at ``offset`` was appended; -1 if unknown."""
        return self._epochs.of_offset(offset)

    def end_of_epoch(self, epoch: int) -> EpochEnd:
        """Return the greatest epoch not above ``epoch`` and its end offset (KIP-320)."""
        return self._epochs.end_of(epoch, self.end_offset)

    # ---- removing

    def delete_before(self, offset: int, now: int) -> None:
        """Advance the log's start offset, and remove the segments that end before it. ``now`` is in ms.

        Raises:
            BrokerError: OFFSET_OUT_OF_RANGE if the offset is past the end of the log.
        """
        if offset > self.end_offset or offset < 0:
            self._check_range(offset)
        # This isn't an error, because DeleteRecords can be retried and can race with retention.
        if offset <= self.start_offset:
            return
        # The active segment always stays, even if all its records are deleted. Producers are remembered until they
        # expire, although their records are gone, so an idle producer can continue (KIP-360).
        self.start_offset = offset
        keep = 0
        while keep < len(self.segments) - 1 and self.segments[keep].next_offset <= offset:
            keep += 1
        self._replace(0, keep, [], now)
        self._epochs.truncate_start(offset)

    def retain(self, now: int) -> None:
        """Remove the oldest segments that exceed ``retention.ms`` or ``retention.bytes``. ``now`` is in ms."""
        config = self.config
        excess = self.size - config.retention_bytes if config.retention_bytes >= 0 else -1
        keep_from = self.start_offset
        # Start with the oldest segment and stop at the first one to retain, because a log can't have holes. A segment
        # is in excess only if at least retention.bytes remain without it.
        for segment in self.segments:
            too_old = config.retention_ms >= 0 and segment.age_timestamp < now - config.retention_ms
            too_much = segment.size <= excess
            newest_and_empty = segment is self.segments[-1] and not segment.size
            if newest_and_empty or not (too_old or too_much):
                break
            excess -= segment.size
            keep_from = segment.next_offset
        if keep_from > self.start_offset:
            # Even the active segment has expired. An empty segment replaces it, and its name preserves the end offset.
            if keep_from == self.end_offset:
                self.roll(now)
            self.delete_before(keep_from, now)
        self.purge(now)

    def replace(self, sources: Sequence[Segment], cleaned: Segment, now: int) -> None:
        """Replace segments with a compacted segment. ``now`` is in ms.

        The rename to ``.swap`` is the commit point: after an earlier crash, the old segments are still there; after a
        later crash, the replacement is completed when the log is opened. If retention has removed one of the sources in
        the meantime, the compacted segment is dropped.
        """
        start = bisect_right(self._bases, sources[0].base_offset) - 1
        end = start + len(sources)
        if self.segments[start:end] != list(sources):
            cleaned.remove()
            return
        cleaned.next_offset = sources[-1].next_offset
        cleaned.rename(SWAP)
        self._replace(start, end, [cleaned], now)

    def _replace(self, start: int, end: int, by: list[Segment], now: int) -> None:
        # Free the old names first: the compacted segment takes one of them. After a crash in between, the next start
        # completes the change from the ``.swap`` file.
        for segment in self.segments[start:end]:
            segment.rename(DELETED)
            self._deleted.append((now + self.config.file_delete_delay_ms, segment))
        for segment in by:
            segment.rename("")
        for base in {*self._bases[start:end]} - {segment.base_offset for segment in by}:
            producer_snapshots.path_of(self.directory, base).unlink(missing_ok=True)
        self.segments[start:end] = by
        self._bases[start:end] = [segment.base_offset for segment in by]
        self.purge(now)

    def purge(self, now: int) -> None:
        """Remove the files of segments deleted ``file.delete.delay.ms`` ago. Until then, readers may still hold a
        :class:`Span` of them."""
        while self._deleted and self._deleted[0][0] <= now:
            self._deleted.popleft()[1].remove()

    def forget_producers(self, before: int) -> None:
        """Forget producers that haven't written anything since ``before`` (ms)."""
        self.producers.expire(before)

    def close_handlers(self) -> None:
        """Close the files without writing indexes or snapshots, before removing the directory or to simulate a
        crash."""
        for segment in self.segments:
            segment.close_handlers()
        while self._deleted:
            self._deleted.popleft()[1].close_handlers()

    def delete(self) -> None:
        """Close the log and remove its directory.

        The directory is renamed first: if the broker crashes in between, a topic that is recreated must not find half a
        log.
        """
        self.close_handlers()
        if self.directory.exists():
            renamed = self.directory.with_name(f"{self.directory.name}.{current().uuid().hex}{DELETED_DIRECTORY}")
            self.directory.rename(renamed)
            shutil.rmtree(renamed, ignore_errors=True)

    # ---- flushing

    def flush(self, now: int) -> None:
        """Flush everything to disk, in this thread. ``now`` is in ms."""
        # Flush older segments first: the recovery point must never pass a segment that isn't on disk.
        self.unflushed_files().sync()
        self.segments[-1].flush()
        self.recovery_point = self.end_offset
        self._flushed_at = now

    def unflushed_files(self) -> UnflushedFiles:
        """Return the files to flush to get all segments except the active one onto disk."""
        newest = self.segments[-1]
        files: list[Path] = []
        for segment in self.segments[:-1]:
            if segment.next_offset > self.recovery_point:
                segment.close()
                files += segment.files()
        # Recovery from this point needs the snapshot, so it must be on disk too.
        if files:
            files.append(producer_snapshots.path_of(self.directory, newest.base_offset))
        return UnflushedFiles(newest.base_offset, files)

    def mark_flushed(self, end: int) -> None:
        """Record that everything before ``end`` has been flushed."""
        # The recovery point never moves back: flush() may have been called while the thread was flushing.
        self.recovery_point = max(self.recovery_point, min(end, self.end_offset))

    def flush_if_due(self, now: int) -> None:
        """Flush if the last flush was ``flush.ms`` ago. ``now`` is in ms."""
        if self.recovery_point < self.end_offset and now - self._flushed_at >= self.config.flush_ms:
            self.flush(now)

    def close(self) -> None:
        """Flush the log and close its files. Writes the indexes and a producer snapshot, so the next start doesn't have
        to recover anything."""
        self.flush(self._flushed_at)
        for segment in self.segments:
            segment.close()
        while self._deleted:
            self._deleted.popleft()[1].remove()
        if self.directory.exists():
            self._epochs.save()
            producer_snapshots.save(self.directory, self.end_offset, self.producers.snapshot())


def _marker(header: BatchHeader, batch: Buffer) -> EndTransaction | None:
    """Return the transaction marker in a batch, or None."""
    # Control batches of KRaft (leader changes, snapshots) don't have a producer.
    if header.producer_id < 0 or not header.attributes & CONTROL:
        return None
    return next((parse_end_transaction(record.key, record.value) for record in RecordBatch(memoryview(batch))), None)
