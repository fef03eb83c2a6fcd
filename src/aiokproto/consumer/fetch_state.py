"""The fetch state of one partition. Written by the fetcher, apart from seeks and :meth:`FetchState.note_end`. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from aiokproto.codec.wire import ZERO_UUID
from aiokproto.consumer.epochs import UNKNOWN, EpochHistory


class FetchState:
    """The fetch state of one partition.

    Attributes:
        offset: The offset to fetch next; None while the start position is unknown.
        topic_id: The id of the topic that the offset belongs to (KIP-516); zeros before the first fetch, or if the
            cluster has no topic ids. A topic that was deleted and created again has another one.
        epochs: The leader epochs of what was fetched.
        leader_epoch: The leader epoch in which the log is known to have what was fetched, and which the next fetch
            expects (KIP-320); -1 if none is.
        attempts: Consecutive failures.
        failure: The last failure, as text.
        retry_at: Loop time before which the partition is not fetched again.
        moves: How often in a row the position was moved because the log does not have it, without a fetch that the log
            served in between. Not the user's seeks.
        missing_since: Loop time since when brokers have reported that the partition does not exist.
        wanted_size: Bytes to request with the next fetch, because a broker before 0.10.1 (KIP-74) cut a batch that is
            larger than the usual limit; 0 for the usual.
        replica: The follower that the leader named as closer (KIP-392), and the loop time until which it is used.
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
        """Continue from another offset; None if it has to be looked up.

        ``epoch`` is the one that was committed or looked up with it, the latter in ``leader_epoch``.
        """
        self.offset = offset
        self.epochs = EpochHistory(offset or 0, epoch)
        self.leader_epoch = leader_epoch
        # The new position belongs to whatever topic has the name now.
        self.topic_id = ZERO_UUID
        self.wanted_size = 0
        # From the leader first: only it names a replica.
        self.replica: tuple[int, float] | None = None
        self.succeeded()

    def advance(self, offset: int, epochs: Iterable[tuple[int, int]] = ()) -> None:
        """All records before this offset are fetched; in these epochs, each with its first offset."""
        self.offset = offset
        self.wanted_size = 0
        for epoch, first in epochs:
            self.epochs.add(epoch, first)

    def note_end(self, end: int, *, stable: bool) -> None:
        """The log ends there, by a lookup and not a fetch; ``stable``: for ``read_committed``. A fetch knows better."""
        if stable and self.last_stable_offset < 0:
            self.last_stable_offset = end
        elif not stable and self.high_watermark < 0:
            self.high_watermark = end

    def rewind(self, offset: int, epoch: int) -> None:
        """Fetch again from an offset, before which the leader's log agrees; ``epoch`` is that of its record there."""
        self.offset = offset
        self.epochs.rewind(offset, epoch)
        self.wanted_size = 0
        self.succeeded()

    def succeeded(self) -> None:
        """A fetch succeeded."""
        self.attempts = 0
        self.failure = ""
        self.retry_at = 0.0
        self.missing_since: float | None = None

    def retry(self, failure: str) -> None:
        """Fetch a partition again that had failed until the user seeks."""
        self.failure = failure
        self.missing_since = None

    def failed(self, failure: str, retry_at: float) -> None:
        """A fetch failed; it is repeated at that loop time at the earliest."""
        self.attempts += 1
        self.failure = failure
        # guard: a partition that failed is fetched again after a pause -> 0.0
        self.retry_at = retry_at

    def is_missing(self, now: float, limit: float) -> bool:
        """Note that the partition does not exist. Return whether that has been so for ``limit`` seconds."""
        if self.missing_since is None:
            self.missing_since = now
        return now - self.missing_since >= limit
