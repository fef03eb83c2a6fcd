"""A log segment: one ``.log`` file, named by its base offset, and its index files (Kafka's LogSegment).

Appends and reads both run in the event loop's thread, so they share one file object and seek before each access. Code
in other threads opens its own file object (:meth:`Segment.batches`).
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from aiokproto.broker.log.header import BatchHeader, Buffer
from aiokproto.broker.log.index import OffsetIndex, TimeIndex
from aiokproto.broker.log.private_files import make_directory, private
from aiokproto.broker.log.transaction_index import TransactionIndex
from aiokproto.codec.payloads.transactions import AbortedTxn
from aiokproto.errors import CorruptRecordError
from aiokproto.records import RecordBatch, decode
from aiokproto.records.batch import HEADER

LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT = ".log", ".index", ".timeindex", ".txnindex", ".snapshot"
BESIDE = (INDEX, TIME_INDEX, TXN_INDEX)
"""The index files, which are renamed and removed together with the segment's file."""

CLEANED, SWAP, DELETED = ".cleaned", ".swap", ".deleted"
"""Suffixes of segments: being written by compaction; complete, about to replace other segments; and about to be
removed."""


SCANNED = 4096
"""How many bytes to read at a time when looking for batches: enough for many headers of small batches, and just one
page of a large batch."""


class Segment:
    """Consecutive batches in one file, with their indexes. The first append creates the file.

    Attributes:
        base_offset: The first offset that the segment can contain. Its files are named after it.
        next_offset: The offset after its last record.
        size: The number of its valid bytes. The file may be longer after a failed write.
        max_timestamp: The greatest timestamp (ms); -1 if there is none.
        created: When the segment was created (ms); -1 if unknown.
        aborted: Its transaction index.
    """

    def __init__(self, directory: Path, base_offset: int, index_interval: int, ending: str = "") -> None:
        self.base_offset = base_offset
        self.next_offset = base_offset
        self.size = 0
        self.max_timestamp = -1
        self.created = -1
        self.aborted = TransactionIndex()
        self._ending = ending
        self._max_timestamp_offset = base_offset
        self._first_timestamp: int | None = None
        self._path = directory / f"{base_offset:020}{LOG}"
        self._index_interval = index_interval
        self._unindexed = 0
        self._offsets = OffsetIndex()
        self._times = TimeIndex()
        self._file: FileIO | None = None
        # True while the index files match the indexes in memory.
        self._saved = False

    def path(self, kind: str = LOG) -> Path:
        """Return the path of its file with the suffix ``kind``."""
        return self._path.with_suffix(kind + self._ending)

    @property
    def modified(self) -> int:
        """The modification time of the file (ms). Compaction sets it on cleaned segments: the retention period must not
        restart."""
        return self.path().stat().st_mtime_ns // 1_000_000

    @modified.setter
    def modified(self, time: int) -> None:
        os.utime(self.path(), ns=(time * 1_000_000, time * 1_000_000))

    @property
    def age_timestamp(self) -> int:
        """The greatest timestamp (ms), or the file's modification time if no record has a timestamp."""
        return self.max_timestamp if self.max_timestamp >= 0 or not self.size else self.modified

    @property
    def first_timestamp(self) -> int:
        """The greatest timestamp (ms) of the first batch; -1 if there is none."""
        if self._first_timestamp is None:
            self._first_timestamp = self.header_at(0).max_timestamp if self.size else -1
        return self._first_timestamp

    @property
    def index_bytes(self) -> int:
        """The size of the larger index in bytes."""
        return max(self._offsets.size, self._times.size)

    # ---- writing

    def create(self) -> None:
        """Create the file and its directory if they are missing."""
        if self._file is None and not self.path().exists():
            make_directory(self._path.parent)
            # The file is unbuffered, so a batch that append() has written survives a crash of the process.
            self._file = FileIO(self.path(), "x+", opener=private)

    def append(self, data: Buffer, header: BatchHeader) -> None:
        """Write a batch at the end.

        ``size`` grows only after the whole batch has been written. If the write fails halfway (because the disk is
        full), the next append overwrites the partial batch, or recovery truncates it.
        """
        self.create()
        file = self._open()
        # Don't write at the end of the file, because a failed write may have left part of a batch there.
        file.seek(self.size)
        # An unbuffered file may write only some of the bytes.
        view = memoryview(data)
        while view:
            view = view[file.write(view) :]
        self._note(header)

    def _note(self, header: BatchHeader) -> None:
        if not self.size:
            self._first_timestamp = header.max_timestamp
        if header.max_timestamp > self.max_timestamp:
            self.max_timestamp = header.max_timestamp
            self._max_timestamp_offset = header.last_offset
        # As in Kafka, both indexes get their entry before the batch that exceeds the interval: a reader can start
        # scanning at its position.
        if self._unindexed > self._index_interval:
            self._offsets.append(header.last_offset - self.base_offset, self.size)
            self._times.append(self.max_timestamp, self._max_timestamp_offset - self.base_offset)
            self._unindexed = 0
        self._unindexed += header.size
        self.size += header.size
        self.next_offset = header.last_offset + 1
        self._saved = False

    def note_aborted(self, aborted: AbortedTxn) -> None:
        """Add a transaction whose abort marker is in this segment."""
        self.aborted.append(aborted)
        self._saved = False

    def flush(self) -> None:
        """Flush the ``.log`` file. The indexes of the active segment aren't flushed: recovery rebuilds them."""
        if self.size:
            os.fsync(self._open().fileno())

    def files(self) -> list[Path]:
        """Return all its files. The segment must be complete and closed."""
        return [self.path(kind) for kind in (LOG, *BESIDE)]

    def save_indexes(self) -> None:
        """Write the index files, unless they are up to date."""
        if self.size and not self._saved:
            self._times.append(self.max_timestamp, self._max_timestamp_offset - self.base_offset)
            self._offsets.save(self.path(INDEX))
            self._times.save(self.path(TIME_INDEX))
            self.aborted.save(self.path(TXN_INDEX))
            self._saved = True

    def close(self) -> None:
        """Write the indexes and close the file. A later read opens it again."""
        self.save_indexes()
        self.close_handlers()

    def close_handlers(self) -> None:
        """Close the file without writing the indexes."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def rename(self, ending: str) -> None:
        """Change the suffix of all its files. The ``.log`` file is renamed last: it makes the segment complete.

        An open file stays open, so a reader that located batches here can still read them.
        """
        for kind in (*BESIDE, LOG):
            source = self.path(kind)
            if source.exists():
                source.replace(self._path.with_suffix(kind + ending))
        self._ending = ending

    def remove(self) -> None:
        """Close and remove the files."""
        self.close_handlers()
        for kind in (LOG, *BESIDE):
            self.path(kind).unlink(missing_ok=True)

    # ---- reading

    def read(self, position: int, size: int) -> bytes:
        """Read bytes of the file."""
        file = self._open()
        file.seek(position)
        return file.read(size)

    def header_at(self, position: int) -> BatchHeader:
        """Read the header of the batch at ``position``."""
        return BatchHeader.read(self.read(position, HEADER.size))

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Yield the position and header of each batch, starting at ``position``."""
        # The indexes limit how many headers are read: see position_of().
        block, block_start = b"", position
        while position < self.size:
            if position + HEADER.size > block_start + len(block):
                block, block_start = self.read(position, SCANNED), position
            header = BatchHeader.read(block, position - block_start)
            yield position, header
            position += header.size

    def position_of(self, offset: int) -> int:
        """Return the position of the first batch that ends at or after ``offset``, or ``size`` if there is none."""
        # Most fetches come from consumers that have read everything: there's nothing to scan.
        if offset >= self.next_offset:
            return self.size
        for position, header in self.headers(self._offsets.position_before(offset - self.base_offset)):
            if header.last_offset >= offset:
                return position
        return self.size

    def length_within(self, position: int, max_bytes: int) -> int:
        """Return the total size of the whole batches, starting at ``position``, that fit into ``max_bytes``."""
        limit = position + max_bytes
        if limit >= self.size:
            return self.size - position
        # Start scanning at the last indexed batch before the limit, not at ``position``, so a fetch of many megabytes
        # reads only a few headers.
        end = max(position, self._offsets.boundary_before(limit))
        for start, header in self.headers(end):
            if start + header.size > limit:
                break
            end = start + header.size
        return end - position

    def batch_at_time(self, timestamp: int, from_offset: int) -> tuple[int, BatchHeader] | None:
        """Return the first batch at or after an offset whose greatest timestamp is at least ``timestamp``."""
        offset = max(from_offset, self.base_offset + self._times.offset_before(timestamp))
        for position, header in self.headers(self.position_of(offset)):
            if header.max_timestamp >= timestamp:
                return position, header
        return None

    def batches(self) -> Iterator[RecordBatch]:
        """Yield all batches through a separate file object, so this can run in another thread."""
        position = 0
        with self.path().open("rb") as file:
            while head := file.read(HEADER.size):
                file.seek(position)
                batch = file.read(BatchHeader.read(head).size)
                position += len(batch)
                yield from decode(batch, check_crc=False)

    # ---- loading and recovery

    @classmethod
    def load(cls, directory: Path, base_offset: int, index_interval: int) -> Segment:
        """Open a segment that doesn't need recovery, using its index files. If these are damaged, the segment is
        recovered after all.

        Args:
            directory: The log's directory.
            base_offset: The segment's base offset.
            index_interval: Bytes between index entries, if the indexes are rebuilt.
        """
        segment = cls(directory, base_offset, index_interval)
        size = segment.path().stat().st_size
        offsets = OffsetIndex.load(segment.path(INDEX), size)
        times = TimeIndex.load(segment.path(TIME_INDEX))
        # When a segment with records is closed, both indexes are written, and the time index contains at least one
        # entry.
        if offsets is None or times is None or times.last is None:
            segment.recover()
            return segment
        segment._offsets, segment._times, segment.size = offsets, times, size
        segment.max_timestamp = times.last.timestamp
        segment._max_timestamp_offset = base_offset + times.last.relative_offset
        segment._saved = True
        try:
            # The index is sparse: scan the batches after its last entry to find where the segment ends.
            for _, header in segment.headers(offsets.last_position):
                segment.next_offset = header.last_offset + 1
        except CorruptRecordError:
            segment.close_handlers()
            segment = cls(directory, base_offset, index_interval)
            segment.recover()
        return segment

    def recover(self) -> bool:
        """Check every batch, rebuild the indexes, and truncate the file at the first invalid batch.

        Returns:
            Whether the whole file was valid.
        """
        found = self.path().stat().st_size
        # The file is mapped because a gigabyte segment must not be read into memory at once. An empty file can't be
        # mapped.
        if found:
            with self.path().open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                self._scan(data)
        if self.size < found:
            os.truncate(self.path(), self.size)
        return self.size == found

    def _scan(self, data: mmap.mmap) -> None:
        with memoryview(data) as view:
            while self.size < len(data):
                try:
                    header = BatchHeader.read(data, self.size)
                except CorruptRecordError:
                    return
                # A batch whose base offset is before the end so far is a leftover of an older file, even if its CRC is
                # valid.
                end = self.size + header.size
                if end > len(data) or header.base_offset < self.next_offset or not header.is_intact(view, self.size):
                    return
                self._note(header)

    def scan_headers(self) -> Iterator[tuple[int, BatchHeader]]:
        """Yield the position and header of each batch, read from a memory map. Used to replay a log when it's
        opened."""
        if not self.size:
            return
        with self.path().open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            position = 0
            while position < self.size:
                header = BatchHeader.read(data, position)
                yield position, header
                position += header.size

    def _open(self) -> FileIO:
        if self._file is None:
            self._file = FileIO(self.path(), "r+")
        return self._file
