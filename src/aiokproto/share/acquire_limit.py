"""How many records to acquire at once, learned from how fast the application takes them. Pure.

Each time that a lock expires on a record in the buffer, the record has used up one of its deliveries without having
been seen. With slow processing and a fixed number of records, that would archive records which nobody has processed.
"""

from __future__ import annotations

_FAST = 4
"""A fetch was taken fast if that took less than this part of the lock's duration."""


class AcquireLimit:
    """The most records to acquire with one request.

    Attributes:
        most: The application's limit, ``max_poll_records``.
        current: The limit now.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.current = most

    def expired(self, delivered: int) -> None:
        """Locks have expired in the buffer after this many records of that fetch were delivered."""
        self.current = max(1, min(self.current, delivered) * 3 // 4)

    def taken(self, elapsed: float, duration: float) -> None:
        """All records of a fetch were delivered, ``elapsed`` seconds into their lock's ``duration``."""
        if elapsed * _FAST < duration:
            self.current = min(2 * self.current, self.most)
