"""The sparse indexes of a segment: offset → position, timestamp → offset.

Both are small, so they live in memory and are written when a segment is closed; that of the newest segment is made
anew from the segment itself when a log is opened, so it never has to be trusted after a crash.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from pathlib import Path
from typing import NamedTuple


class OffsetIndex:
    """Offsets, relative to the segment's base, and the position of the batch that ends with each.

    On disk: int32 relative offset, int32 position.
    """

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._positions: list[int] = []

    def append(self, relative_offset: int, position: int) -> None:
        """Note that the batch which ends with this offset begins at ``position``."""
        self._offsets.append(relative_offset)
        self._positions.append(position)

    def position_before(self, relative_offset: int) -> int:
        """A position from which reading on leads to the offset."""
        at = bisect_right(self._offsets, relative_offset)
        return self._positions[at - 1] if at else 0

    def boundary_before(self, position: int) -> int:
        """The last known beginning of a batch at or before ``position``."""
        at = bisect_right(self._positions, position)
        return self._positions[at - 1] if at else 0

    @property
    def last_position(self) -> int:
        """Where the last known beginning of a batch is."""
        return self._positions[-1] if self._positions else 0

    @property
    def size(self) -> int:
        """Its bytes on disk."""
        return _OFFSET_ENTRY.size * len(self._offsets)

    def save(self, path: Path) -> None:
        """Write the index to ``path``."""
        path.write_bytes(b"".join(map(_OFFSET_ENTRY.pack, self._offsets, self._positions)))

    @classmethod
    def load(cls, path: Path, segment_size: int) -> OffsetIndex | None:
        """Read an index; None if there is none, or it does not fit a segment of that size."""
        index = cls()
        last = (-1, -1)
        for entry in _read_entries(path, _OFFSET_ENTRY):
            if entry[0] <= last[0] or entry[1] <= last[1] or entry[1] >= segment_size:
                return None
            index.append(*entry)
            last = entry
        return index if path.exists() else None


class TimeEntry(NamedTuple):
    """A timestamp (ms) that no record before ``relative_offset`` exceeds."""

    timestamp: int
    relative_offset: int


class TimeIndex:
    """Growing timestamps, and the relative offset up to which each is the greatest.

    On disk: int64 timestamp, int32 relative offset.
    """

    def __init__(self) -> None:
        self._timestamps: list[int] = []
        self._offsets: list[int] = []

    def append(self, timestamp: int, relative_offset: int) -> None:
        """Note the greatest timestamp so far; one that is no greater than the last tells nothing new."""
        if not self._timestamps or timestamp > self._timestamps[-1]:
            self._timestamps.append(timestamp)
            self._offsets.append(relative_offset)

    def offset_before(self, timestamp: int) -> int:
        """A relative offset before which all timestamps are smaller."""
        at = bisect_left(self._timestamps, timestamp)
        return self._offsets[at - 1] if at else 0

    @property
    def last(self) -> TimeEntry | None:
        """The greatest timestamp."""
        return TimeEntry(self._timestamps[-1], self._offsets[-1]) if self._timestamps else None

    @property
    def size(self) -> int:
        """Its bytes on disk."""
        return _TIME_ENTRY.size * len(self._timestamps)

    def save(self, path: Path) -> None:
        """Write the index to ``path``."""
        path.write_bytes(b"".join(map(_TIME_ENTRY.pack, self._timestamps, self._offsets)))

    @classmethod
    def load(cls, path: Path) -> TimeIndex | None:
        """Read an index; None if there is none, or it is damaged."""
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
    whole = len(data) - len(data) % entry.size
    return list(entry.iter_unpack(data[:whole]))
