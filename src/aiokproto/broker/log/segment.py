"""One file of a log, named by the offset it begins with, and the files beside it."""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterator
from io import FileIO
from pathlib import Path

from aiokproto.broker.log.header import BatchHeader, Buffer
from aiokproto.broker.log.index import OffsetIndex, TimeIndex
from aiokproto.broker.log.transaction_index import TransactionIndex
from aiokproto.codec.payloads.transactions import AbortedTxn
from aiokproto.errors import CorruptRecordError
from aiokproto.records import RecordBatch, decode
from aiokproto.records.batch import HEADER

LOG, INDEX, TIME_INDEX, TXN_INDEX, SNAPSHOT = ".log", ".index", ".timeindex", ".txnindex", ".snapshot"
BESIDE = (INDEX, TIME_INDEX, TXN_INDEX)
"""What lies beside a segment's file and goes where it goes."""

CLEANED, SWAP, DELETED = ".cleaned", ".swap", ".deleted"
"""Endings of files that are being written, that are complete and about to take their place, and that are to go."""


class Segment:
    """A run of batches in one file, with its indexes. The file is created by the first append.

    Attributes:
        base_offset: Offset that the segment begins with, and its name.
        next_offset: Offset after its last record.
        size: Bytes in the file.
        max_timestamp: Greatest timestamp (ms) in it; -1 if there is none.
        created: When it was begun (ms); -1 if that is not known.
        aborted: The aborted transactions whose markers are in it.
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
        self._saved = False

    def path(self, kind: str = LOG) -> Path:
        """Where its file of some kind is."""
        return self._path.with_suffix(kind + self._ending)

    @property
    def modified(self) -> int:
        """When the file was last written to (ms). Compaction sets it: what it writes is as old as it was."""
        return self.path().stat().st_mtime_ns // 1_000_000

    @modified.setter
    def modified(self, time: int) -> None:
        os.utime(self.path(), ns=(time * 1_000_000, time * 1_000_000))

    @property
    def age_timestamp(self) -> int:
        """The greatest timestamp (ms), or when the file was last written to if no record has one."""
        return self.max_timestamp if self.max_timestamp >= 0 or not self.size else self.modified

    @property
    def first_timestamp(self) -> int:
        """Greatest timestamp (ms) of the first batch; -1 if it has none."""
        if self._first_timestamp is None:
            self._first_timestamp = self.header_at(0).max_timestamp if self.size else -1
        return self._first_timestamp

    @property
    def index_bytes(self) -> int:
        """Bytes of the larger index."""
        return max(self._offsets.size, self._times.size)

    # ---- writing

    def create(self) -> None:
        """Create the file, and the directory, unless it is there."""
        if self._file is None and not self.path().exists():
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = FileIO(self.path(), "x+")

    def append(self, data: Buffer, header: BatchHeader) -> None:
        """Write a batch to the end. If that fails midway the file's tail is invalid; nobody reads beyond ``size``."""
        self.create()
        file = self._open()
        file.seek(self.size)
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
        if self._unindexed > self._index_interval:
            self._offsets.append(header.last_offset - self.base_offset, self.size)
            self._times.append(self.max_timestamp, self._max_timestamp_offset - self.base_offset)
            self._unindexed = 0
        self._unindexed += header.size
        self.size += header.size
        self.next_offset = header.last_offset + 1
        self._saved = False

    def note_aborted(self, aborted: AbortedTxn) -> None:
        """Note a transaction whose abort marker is in this segment."""
        self.aborted.append(aborted)
        self._saved = False

    def flush(self) -> None:
        """Have the segment's own file on disk: of the newest one, the indexes are made anew when they are needed."""
        if self.size:
            os.fsync(self._open().fileno())

    def files(self) -> list[Path]:
        """All its files, of a segment that is complete and closed."""
        return [self.path(kind) for kind in (LOG, *BESIDE)]

    def save_indexes(self) -> None:
        """Write the indexes next to the segment."""
        if self.size and not self._saved:
            self._times.append(self.max_timestamp, self._max_timestamp_offset - self.base_offset)
            self._offsets.save(self.path(INDEX))
            self._times.save(self.path(TIME_INDEX))
            self.aborted.save(self.path(TXN_INDEX))
            self._saved = True

    def close(self) -> None:
        """Write the indexes and close the file; it is opened again when needed."""
        self.save_indexes()
        self.close_handlers()

    def close_handlers(self) -> None:
        """Close the file and write nothing."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def rename(self, ending: str) -> None:
        """Give all its files another ending. The log's own comes last: with it the segment is whole.

        What is open stays so: who found something here before may still read it.
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
        """Bytes of the file."""
        file = self._open()
        file.seek(position)
        return file.read(size)

    def header_at(self, position: int) -> BatchHeader:
        """The header of the batch that begins at ``position``."""
        return BatchHeader.read(self.read(position, HEADER.size))

    def headers(self, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from the one at ``position`` on."""
        while position < self.size:
            header = self.header_at(position)
            yield position, header
            position += header.size

    def position_of(self, offset: int) -> int:
        """Where the first batch begins that has the offset or later ones; ``size`` if there is none."""
        for position, header in self.headers(self._offsets.position_before(offset - self.base_offset)):
            if header.last_offset >= offset:
                return position
        return self.size

    def length_within(self, position: int, max_bytes: int) -> int:
        """Bytes of the whole batches from ``position`` on that fit ``max_bytes``."""
        limit = position + max_bytes
        if limit >= self.size:
            return self.size - position
        end = max(position, self._offsets.boundary_before(limit))
        for start, header in self.headers(end):
            if start + header.size > limit:
                break
            end = start + header.size
        return end - position

    def batch_at_time(self, timestamp: int, from_offset: int) -> tuple[int, BatchHeader] | None:
        """The first batch at or after an offset that holds a record at or after the time."""
        offset = max(from_offset, self.base_offset + self._times.offset_before(timestamp))
        for position, header in self.headers(self.position_of(offset)):
            if header.max_timestamp >= timestamp:
                return position, header
        return None

    def batches(self) -> Iterator[RecordBatch]:
        """All batches, through a file of its own: for who reads in another thread."""
        position = 0
        with self.path().open("rb") as file:
            while head := file.read(HEADER.size):
                file.seek(position)
                batch = file.read(BatchHeader.read(head).size)
                position += len(batch)
                yield from decode(batch, check_crc=False)

    # ---- opening what is on disk

    @classmethod
    def load(cls, directory: Path, base_offset: int, index_interval: int) -> Segment:
        """Open a segment that is known to be valid, with what its indexes say; they are made anew if they are damaged.

        Args:
            directory: The log's directory.
            base_offset: The segment's name.
            index_interval: Bytes between entries of its indexes, if they have to be made anew.
        """
        segment = cls(directory, base_offset, index_interval)
        size = segment.path().stat().st_size
        offsets = OffsetIndex.load(segment.path(INDEX), size)
        times = TimeIndex.load(segment.path(TIME_INDEX))
        if offsets is None or times is None or times.last is None:
            segment.recover()
            return segment
        segment._offsets, segment._times, segment.size = offsets, times, size
        segment.max_timestamp = times.last.timestamp
        segment._max_timestamp_offset = base_offset + times.last.relative_offset
        segment._saved = True
        try:
            for _, header in segment.headers(offsets.last_position):
                segment.next_offset = header.last_offset + 1
        except CorruptRecordError:
            segment.close_handlers()
            segment = cls(directory, base_offset, index_interval)
            segment.recover()
        return segment

    def recover(self) -> bool:
        """Read the file from its beginning, make the indexes, and cut off what is no valid batch.

        Returns:
            Whether all of it was valid.
        """
        found = self.path().stat().st_size
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
                end = self.size + header.size
                if end > len(data) or header.base_offset < self.next_offset or not header.is_intact(view, self.size):
                    return
                self._note(header)

    def scan_headers(self) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch, quickly: for going through a log when it is opened."""
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
