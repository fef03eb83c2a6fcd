"""What a log is told, and what it tells."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from aiokproto.broker.log.segment import Segment

_LONG = (1 << 63) - 1
_DAY = 86_400_000


@dataclass(frozen=True)
class LogConfig:
    """What a log is told by its topic's configuration, by Kafka's names. Times in ms, sizes in bytes."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * _DAY
    """-1 for no limit, as ``retention_bytes``."""
    retention_bytes: int = -1
    flush_messages: int = _LONG
    flush_ms: int = _LONG
    file_delete_delay_ms: int = 60_000
    compact: bool = False
    """Whether ``cleanup.policy`` has "compact"; the four that follow are for this."""
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _LONG
    delete_retention_ms: int = _DAY
    append_time: bool = False
    """LogAppendTime: the broker's clock, not the producer's, stamps the records."""


class LogCheckpoint(NamedTuple):
    """What the checkpoints in the data directory say of a log.

    Attributes:
        start_offset: Where it begins, if that is within a segment.
        recovery_point: The offset up to which it was on disk for certain.
        cleaned_to: The offset up to which it was compacted.
        clean_shutdown: Whether it was closed in good order: then nothing has to be checked.
    """

    start_offset: int = 0
    recovery_point: int = 0
    cleaned_to: int = 0
    clean_shutdown: bool = False


class LogAppendInfo(NamedTuple):
    """Where a batch is. ``timestamp`` (ms) is -1 unless the broker's clock set it."""

    base_offset: int
    last_offset: int
    timestamp: int
    duplicate: bool


class Span(NamedTuple):
    """Whole batches in a row, found but not read yet."""

    segment: Segment
    position: int
    size: int

    def read(self) -> bytes:
        """The batches."""
        return self.segment.read(self.position, self.size) if self.size else b""
