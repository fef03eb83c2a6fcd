"""The aborted transactions of a segment, which ``read_committed`` consumers must skip (KIP-98): ``.txnindex`` files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from aiokproto.broker.log.private_files import write_private
from aiokproto.codec.payloads.transactions import AbortedTxn
from aiokproto.errors import DecodeError

_VERSION = bytes(2)
"""Version 0 as int16. It precedes each entry, rather than the whole file."""

_SIZE = len(_VERSION) + 4 * 8


class TransactionIndex:
    """A segment's aborted transactions in the order of their abort markers. On disk each entry is a version (int16) and
    four int64 fields."""

    def __init__(self) -> None:
        self._ended: list[AbortedTxn] = []

    def __iter__(self) -> Iterator[AbortedTxn]:
        return iter(self._ended)

    def append(self, aborted: AbortedTxn) -> None:
        """Add a transaction whose abort marker was just written."""
        self._ended.append(aborted)

    def between(self, offset: int, end: int) -> list[AbortedTxn]:
        """Return the transactions with records at or after ``offset`` and before ``end``."""
        found = []
        for aborted in self._ended:
            # The transaction overlaps the range. The range may start in the middle of it.
            if aborted.last_offset >= offset and aborted.first_offset < end:
                found.append(aborted)
            # Transactions that ended later were open at this marker, or started after it. So all their records are at
            # or after the last stable offset recorded with it.
            if aborted.last_stable_offset >= end:
                break
        return found

    def save(self, path: Path) -> None:
        """Write the index to ``path``. An empty index doesn't have a file."""
        if self._ended:
            write_private(path, b"".join(_VERSION + aborted.encode(0) for aborted in self._ended))
        else:
            path.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: Path) -> TransactionIndex | None:
        """Read the index of a segment; None if the file is damaged."""
        found = cls()
        data = path.read_bytes() if path.exists() else b""
        try:
            for position in range(0, len(data), _SIZE):
                entry = data[position : position + _SIZE]
                if not entry.startswith(_VERSION):
                    return None
                found.append(AbortedTxn.decode(entry[len(_VERSION) :], 0))
        except DecodeError:
            return None
        return found
