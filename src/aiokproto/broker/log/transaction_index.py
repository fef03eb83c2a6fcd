"""The aborted transactions of a segment: what a reader of committed records has to be told to leave out (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from aiokproto.codec.payloads.transactions import AbortedTxn
from aiokproto.errors import DecodeError

_VERSION = bytes(2)
_SIZE = len(_VERSION) + 4 * 8


class TransactionIndex:
    """They come in the order of their abort markers. On disk, each is its version (int16) and four int64."""

    def __init__(self) -> None:
        self._ended: list[AbortedTxn] = []

    def __iter__(self) -> Iterator[AbortedTxn]:
        return iter(self._ended)

    def append(self, aborted: AbortedTxn) -> None:
        """Note one, whose marker was just written."""
        self._ended.append(aborted)

    def between(self, offset: int, end: int) -> list[AbortedTxn]:
        """Those that have records from ``offset`` on and before ``end``."""
        found = []
        for aborted in self._ended:
            if aborted.last_offset >= offset and aborted.first_offset < end:
                found.append(aborted)
            # All that ended later began at or after the last stable offset of then.
            if aborted.last_stable_offset >= end:
                break
        return found

    def save(self, path: Path) -> None:
        """Write them to ``path``; no file says that there are none."""
        if self._ended:
            path.write_bytes(b"".join(_VERSION + aborted.encode(0) for aborted in self._ended))
        else:
            path.unlink(missing_ok=True)

    @classmethod
    def load(cls, path: Path) -> TransactionIndex | None:
        """Read a segment's; None if the file is damaged."""
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
