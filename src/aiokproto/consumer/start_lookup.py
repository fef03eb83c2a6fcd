"""The lookup of one partition's start position. Only the resolver writes it; each seek starts a new lookup. Pure."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

EARLIEST = -2
"""The timestamp that represents the first offset in ListOffsets."""
LATEST = -1
"""The timestamp that represents the offset after the last record in ListOffsets."""
NEAREST = -11
"""Start at the offset in the log nearest to the former position. Not a protocol value."""
COMMITTED = -10
"""Start at the group's committed offset. Not a protocol value."""


class ResetReason(Enum):
    """Why the consumer has moved a position on its own."""

    OUT_OF_RANGE = "the offset is outside the log"
    TOPIC_RECREATED = "the topic was deleted and created again"
    TRUNCATED = "the log was truncated"


class FormerPosition(NamedTuple):
    """A position that isn't in the log: the reason, the offset, and the leader epoch of the record before it."""

    reason: ResetReason
    offset: int
    leader_epoch: int


class Lookup:
    """A lookup that is repeated until it succeeds.

    Attributes:
        under_way: Whether a request for it is in flight.
        requested_at: Loop time of the last request.
        attempts: Consecutive failures.
        failure: A description of the last failure.
        retry_at: The earliest loop time for the next attempt, ...
        generation: ... unless the cluster metadata is newer than this generation.
    """

    __slots__ = ("attempts", "failure", "generation", "requested_at", "retry_at", "under_way")

    def __init__(self) -> None:
        self.under_way = False
        self.requested_at = 0.0
        self.attempts = 0
        self.failure = ""
        self.retry_at = 0.0
        self.generation = -1

    def postpone(self, retry_at: float, generation: int) -> None:
        """Don't make an attempt before ``retry_at`` (loop time), unless the metadata is newer than ``generation``."""
        self.retry_at, self.generation = retry_at, generation


class StartLookup(Lookup):
    """The lookup of one start position.

    Attributes:
        start: What to look up: ``COMMITTED``, ``EARLIEST``, ``LATEST``, ``NEAREST``, or a timestamp (ms since the
            epoch).
        missing_since: The loop time when brokers first reported that the partition doesn't exist.
        needed: Whether a call is waiting for the position even though the partition is held.
        end: For a timestamp or ``NEAREST``, the end of the log before the lookup; -1 while unknown.
        reset: The former position, and why a new one is looked up; None for a start or a seek.
        uncommitted: Whether ``start`` comes from ``auto_offset_reset`` because the group has no committed offset.
    """

    __slots__ = ("end", "missing_since", "needed", "reset", "start", "uncommitted")

    def __init__(self, start: int, reset: FormerPosition | None = None) -> None:
        super().__init__()
        self.start = start
        self.missing_since: float | None = None
        self.needed = False
        self.end = -1
        self.reset = reset
        self.uncommitted = False

    @property
    def needs_end(self) -> bool:
        """Whether the end of the log has to be looked up first.

        If no record has the timestamp or a later one, the position is the end of the log. The end is looked up before
        the timestamp: if it were looked up afterwards, it could be past a matching record that was written in between.
        """
        return (self.start >= 0 or self.start == NEAREST) and self.end < 0

    @property
    def wanted(self) -> int:
        """The timestamp of the next ListOffsets request."""
        # COMMITTED never gets here: the group's offset is looked up first, and replaces it.
        if self.needs_end:
            return LATEST
        return EARLIEST if self.start == NEAREST else self.start

    def failed(self, failure: str) -> None:
        """Note why the position isn't known yet."""
        self.failure = failure

    def is_missing(self, now: float, limit: float) -> bool:
        """Note that a broker reports the partition as missing. Return whether it has been missing for ``limit``
        seconds."""
        if self.missing_since is None:
            self.missing_since = now
        return now - self.missing_since >= limit
