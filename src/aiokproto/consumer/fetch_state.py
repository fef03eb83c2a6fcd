"""What the fetcher knows of one partition. Written by the fetcher alone; a seek makes it start over. Pure."""

from __future__ import annotations

from aiokproto.codec.wire import ZERO_UUID


class FetchState:
    """Fetching of one partition.

    Attributes:
        offset: The offset to fetch next; None while it is not known where to start.
        topic_id: The topic that the offsets are of (KIP-516); zeros before the first fetch, or without ids.
        attempts: Failures in a row.
        failure: The last of those.
        retry_at: Loop time before which it is not fetched again.
        missing_since: Loop time since which brokers have said that the partition does not exist.
        wanted_size: Bytes that the next fetch has to bring of it, as less was of no use (KIP-74); 0 for the usual.
        replica: The follower that the leader has named to read from (KIP-392), and until which loop time.
        high_watermark: The end of what is replicated; -1 when unknown.
        last_stable_offset: The end of what ``read_committed`` may see; -1 when unknown.
        log_start_offset: The first offset there is; -1 when unknown.
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
        """Go on from another offset, or, with None, from one that is to be found out."""
        self.offset = offset
        self.topic_id = ZERO_UUID
        self.wanted_size = 0
        self.replica: tuple[int, float] | None = None
        self.succeeded()

    def advance(self, offset: int) -> None:
        """All records before this offset are fetched."""
        self.offset = offset
        self.wanted_size = 0

    def succeeded(self) -> None:
        """A fetch was answered without an error."""
        self.attempts = 0
        self.failure = ""
        self.retry_at = 0.0
        self.missing_since: float | None = None

    def retry(self, failure: str) -> None:
        """The partition had failed for good, and is tried once more."""
        self.failure = failure
        self.missing_since = None

    def failed(self, failure: str, retry_at: float) -> None:
        """A fetch has failed, and is repeated not before that loop time."""
        self.attempts += 1
        self.failure = failure
        self.retry_at = retry_at

    def is_missing(self, now: float, limit: float) -> bool:
        """Note that the partition does not exist; whether that has been so for ``limit`` seconds."""
        if self.missing_since is None:
            self.missing_since = now
        return now - self.missing_since >= limit
