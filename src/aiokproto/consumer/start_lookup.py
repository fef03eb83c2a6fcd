"""Finding out where one partition starts. Written by the locator alone; each seek begins another lookup. Pure."""

from __future__ import annotations

EARLIEST = -2
"""ListOffsets' number for the first offset."""
LATEST = -1
"""ListOffsets' number for the offset after the last record."""
COMMITTED = -10
"""Start where the group has committed."""


class StartLookup:
    """The lookup of one start position.

    Attributes:
        start: What to ask for: ``COMMITTED``, ``EARLIEST``, ``LATEST``, or a time (ms).
        under_way: Whether a request for it is.
        asked_at: Loop time of the last request.
        attempts: Failures in a row.
        failure: The last of those.
        missing_since: Loop time since which brokers have said that the partition does not exist.
        retry_at: Loop time before which nobody is asked again, ...
        generation: ... unless the metadata is newer than this.
        needed: Whether somebody waits for it though the partition is held back.
        end: Where the log ended before it was asked for a time; -1 while that is not known.
    """

    __slots__ = (
        "asked_at",
        "attempts",
        "end",
        "failure",
        "generation",
        "missing_since",
        "needed",
        "retry_at",
        "start",
        "under_way",
    )

    def __init__(self, start: int) -> None:
        self.start = start
        self.under_way = False
        self.asked_at = 0.0
        self.attempts = 0
        self.failure = ""
        self.missing_since: float | None = None
        self.retry_at = 0.0
        self.generation = -1
        self.needed = False
        self.end = -1

    @property
    def needs_end(self) -> bool:
        """Whether the end of the log is looked up first: where no record is as late as the time, it starts there. Asked
        for afterwards, the end may be behind such a record that has come meanwhile."""
        return self.start >= 0 and self.end < 0

    @property
    def wanted(self) -> int:
        """What to ask the log for next."""
        return LATEST if self.needs_end else self.start

    def failed(self, failure: str) -> None:
        """A request has failed, or another had to be made first."""
        self.failure = failure

    def is_missing(self, now: float, limit: float) -> bool:
        """Note that the partition does not exist; whether that has been so for ``limit`` seconds."""
        if self.missing_since is None:
            self.missing_since = now
        return now - self.missing_since >= limit
