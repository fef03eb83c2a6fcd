"""The trace of a simulation: a hash of all events, so that two runs can be compared."""

from __future__ import annotations

import hashlib
import zlib
from collections import deque
from collections.abc import Callable

KEPT = 2_000
"""How many of the latest events are kept as text."""


class Trace:
    """Every event of a run, with its time.

    Attributes:
        last: The latest events in readable form.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self.last: deque[str] = deque(maxlen=KEPT)
        self._now = now
        self._hash = hashlib.sha256()

    def note(self, event: str, where: str = "", data: bytes = b"") -> None:
        """Add an event: what happened, where, and the bytes that it carries."""
        carried = f" {len(data)} bytes, crc {zlib.crc32(data):08x}" if data else ""
        line = f"{self._now():.6f} {event} {where}{carried}"
        self._hash.update(line.encode())
        self.last.append(line)

    @property
    def hash(self) -> str:
        """The hash of all events. Two runs with the same events at the same times have the same hash."""
        return self._hash.hexdigest()
