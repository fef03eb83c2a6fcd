"""The sparse indexes of a segment: offset → file position, and timestamp → offset.

One entry per ``index.interval.bytes`` makes them small enough to stay in memory. They are written when a segment is
closed. After a crash the indexes of every segment beyond the recovery point are rebuilt from the segment, so a stale
file is never used.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import NamedTuple

from aiokproto.broker.log.private_files import write_private


class OffsetIndex:
    """The last offsets of some batches, relative to the segment's base offset, with the positions of these batches.

    On disk an entry is an int32 relative offset and an int32 position.
    """

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._positions: list[int] = []

    def append(self, relative_offset: int, position: int) -> None:
        """Add the position of the batch whose last offset is ``relative_offset``."""
        self._offsets.append(relative_offset)
        self._positions.append(position)

    def position_before(self, relative_offset: int) -> int:
        """Return the position of an indexed batch at or before the offset, to start scanning at."""
        index = bisect_right(self._offsets, relative_offset)
        return self._positions[index - 1] if index else 0

    def boundary_before(self, position: int) -> int:
        """Return the last indexed batch position at or before ``position``."""
        index = bisect_right(self._positions, position)
        return self._positions[index - 1] if index else 0

    @property
    def last_position(self) -> int:
        """The last indexed batch position."""
        return self._positions[-1] if self._positions else 0

    @property
    def size(self) -> int:
        """Its size on disk in bytes."""
        return _OFFSET_ENTRY.size * len(self._offsets)

    def save(self, path: Path) -> None:
        """Write the index to ``path``."""
        write_private(path, b"".join(map(_OFFSET_ENTRY.pack, self._offsets, self._positions)))

    @classmethod
    def load(cls, path: Path, segment_size: int) -> OffsetIndex | None:
        """Read an index; None if the file is missing or doesn't match a segment of that size."""
        index = cls()
        last = (-1, -1)
        for entry in _read_entries(path, _OFFSET_ENTRY):
            # The file is damaged, or belongs to another segment. Or it was copied from Kafka, which preallocates the
            # active segment's index with zeros. In all these cases the index is rebuilt.
            if entry[0] <= last[0] or entry[1] <= last[1] or entry[1] >= segment_size:
                return None
            index.append(*entry)
            last = entry
        return index if path.exists() else None


class TimeEntry(NamedTuple):
    """A timestamp (ms), and an offset: no record before that offset has a greater timestamp."""

    timestamp: int
    relative_offset: int


class TimeIndex:
    """Increasing timestamps, each with the relative last offset of its batch.

    On disk an entry is an int64 timestamp and an int32 relative offset.
    """

    def __init__(self) -> None:
        self._timestamps: list[int] = []
        self._offsets: list[int] = []

    def append(self, timestamp: int, relative_offset: int) -> None:
        """Add the greatest timestamp so far. It is ignored unless it is greater than the last entry."""
        # Timestamps only increase, so lookups can use binary search. Records with older timestamps are found by the
        # scan.
        if not self._timestamps or timestamp > self._timestamps[-1]:
            self._timestamps.append(timestamp)
            self._offsets.append(relative_offset)

    def offset_before(self, timestamp: int) -> int:
        """Return a relative offset before which all timestamps are smaller."""
        index = bisect_left(self._timestamps, timestamp)
        return self._offsets[index - 1] if index else 0

    @property
    def last(self) -> TimeEntry | None:
        """The entry with the greatest timestamp; None if the index is empty."""
        return TimeEntry(self._timestamps[-1], self._offsets[-1]) if self._timestamps else None

    @property
    def size(self) -> int:
        """Its size on disk in bytes."""
        return _TIME_ENTRY.size * len(self._timestamps)

    def save(self, path: Path) -> None:
        """Write the index to ``path``."""
        write_private(path, b"".join(map(_TIME_ENTRY.pack, self._timestamps, self._offsets)))

    @classmethod
    def load(cls, path: Path) -> TimeIndex | None:
        """Read an index; None if the file is missing or damaged."""
        index = cls()
        entries = _read_entries(path, _TIME_ENTRY)
        for timestamp, offset in entries:
            index.append(timestamp, offset)
        return index if entries and len(index._timestamps) == len(entries) else None


_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")


def _read_entries(path: Path, entry: struct.Struct) -> list[tuple[int, int]]:
    if not path.exists():
        return []
    data = path.read_bytes()
    # A crash can leave part of the last entry.
    whole = len(data) - len(data) % entry.size
    return list(entry.iter_unpack(data[:whole]))
