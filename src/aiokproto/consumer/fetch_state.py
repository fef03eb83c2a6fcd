"""The fetch state of one partition. Written by the fetcher alone; a seek resets it. Pure."""

from __future__ import annotations

from aiokproto.codec.wire import ZERO_UUID


class FetchState:
    """The fetch state of one partition.

    Attributes:
        offset: The offset to fetch next; None while the start position is unknown.
        topic_id: The id of the topic that the offset belongs to (KIP-516); zeros before the first fetch, or if the
            cluster has no topic ids. A topic that was deleted and created again has another one.
        attempts: Consecutive failures.
        failure: The last failure, as text.
        retry_at: Loop time before which the partition is not fetched again.
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
        "failure",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "missing_since",
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
        self.restart(None)

    def restart(self, offset: int | None) -> None:
        """Continue from another offset; None if it has to be looked up."""
        self.offset = offset
        # The new position belongs to whatever topic has the name now.
        self.topic_id = ZERO_UUID
        self.wanted_size = 0
        # From the leader first: only it names a replica.
        self.replica: tuple[int, float] | None = None
        self.succeeded()

    def advance(self, offset: int) -> None:
        """All records before this offset are fetched."""
        self.offset = offset
        self.wanted_size = 0

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
        self.retry_at = retry_at

    def is_missing(self, now: float, limit: float) -> bool:
        """Note that the partition does not exist. Return whether that has been so for ``limit`` seconds."""
        if self.missing_since is None:
            self.missing_since = now
        return now - self.missing_since >= limit
