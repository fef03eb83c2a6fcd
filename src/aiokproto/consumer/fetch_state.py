"""The fetch state of one partition. Only the fetcher writes it, except for seeks and :meth:`FetchState.note_end`.
Pure."""

from __future__ import annotations

from collections.abc import Iterable

from aiokproto.codec.wire import ZERO_UUID
from aiokproto.consumer.epochs import UNKNOWN, EpochHistory


class FetchState:
    """The fetch state of one partition.

    Attributes:
        offset: The offset to fetch next; None while the start position is unknown.
        topic_id: The id of the topic that the offset belongs to (KIP-516); zeros before the first fetch, or if the
            cluster has no topic ids. A topic that was deleted and created again has a new id.
        epochs: The leader epochs of what was fetched.
        leader_epoch: The leader epoch in which the log is known to contain what was fetched, and which the next fetch
            expects (KIP-320); -1 if there is none.
        attempts: Consecutive failures.
        failure: A description of the last failure.
        retry_at: The earliest loop time for the next fetch.
        moves: How many times in a row the position was moved because it wasn't in the log, without a successful fetch
            in between. Seeks by the application don't count.
        missing_since: The loop time when brokers first reported that the partition doesn't exist.
        wanted_size: The size to request with the next fetch, because a broker before 0.10.1 (KIP-74) has cut a batch
            that is larger than the normal limit; 0 to use the normal limit.
        replica: The follower that the leader named as closer (KIP-392), and the loop time when its use ends.
        high_watermark: The end of the replicated log; -1 if unknown.
        last_stable_offset: The end of what ``read_committed`` can read; -1 if unknown.
        log_start_offset: The first offset of the log; -1 if unknown.
    """

    __slots__ = (
        "attempts",
        "epochs",
        "failure",
        "high_watermark",
        "last_stable_offset",
        "leader_epoch",
        "log_start_offset",
        "missing_since",
        "moves",
        "offset",
        "replica",
        "retry_at",
        "topic_id",
        "wanted_size",
    )

    def __init__(self) -> None:
        self.high_watermark = -1
        self.last_stable_offset = -1
        self.log_start_offset = -1
        self.moves = 0
        self.restart(None)

    def restart(self, offset: int | None, epoch: int = UNKNOWN, leader_epoch: int = UNKNOWN) -> None:
        """Continue from another offset, or look it up if it's None.

        ``epoch`` was committed or looked up with the offset. If it was looked up, ``leader_epoch`` is the leader epoch
        at that time.
        """
        self.offset = offset
        self.epochs = EpochHistory(offset or 0, epoch)
        self.leader_epoch = leader_epoch
        # The new position belongs to the topic that currently has the name.
        self.topic_id = ZERO_UUID
        self.wanted_size = 0
        # Fetch from the leader first: only the leader can name a replica.
        self.replica: tuple[int, float] | None = None
        self.succeeded()

    def advance(self, offset: int, epochs: Iterable[tuple[int, int]] = ()) -> None:
        """Note that all records before this offset are fetched. ``epochs`` are their leader epochs, each with its first
        offset."""
        self.offset = offset
        self.wanted_size = 0
        for epoch, first in epochs:
            self.epochs.add(epoch, first)

    def note_end(self, end: int, *, stable: bool) -> None:
        """Note the end of the log that a lookup found, unless it's already known from a fetch. ``stable`` means that
        it's the end for ``read_committed``."""
        if stable and self.last_stable_offset < 0:
            self.last_stable_offset = end
        elif not stable and self.high_watermark < 0:
            self.high_watermark = end

    def rewind(self, offset: int, epoch: int) -> None:
        """Fetch again from an offset. Before it, the leader's log agrees with what was fetched; ``epoch`` is the epoch
        of the leader's record there."""
        self.offset = offset
        self.epochs.rewind(offset, epoch)
        self.wanted_size = 0
        self.succeeded()

    def succeeded(self) -> None:
        """Note that a fetch succeeded."""
        self.attempts = 0
        self.failure = ""
        self.retry_at = 0.0
        self.missing_since: float | None = None

    def retry(self, failure: str) -> None:
        """Fetch the partition again after a failure."""
        self.failure = failure
        self.missing_since = None

    def failed(self, failure: str, retry_at: float) -> None:
        """Note that a fetch failed. It's repeated at ``retry_at`` (loop time) at the earliest."""
        self.attempts += 1
        self.failure = failure
        # guard: a partition that failed is fetched again after a pause -> 0.0
        self.retry_at = retry_at

    def is_missing(self, now: float, limit: float) -> bool:
        """Note that a broker reports the partition as missing. Return whether it has been missing for ``limit``
        seconds."""
        if self.missing_since is None:
            self.missing_since = now
        return now - self.missing_since >= limit
