"""The values that go in and out of a log: configuration, checkpoint, append result, and located batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from aiokproto.broker.log.segment import Segment

_LONG = (1 << 63) - 1
_DAY = 86_400_000


@dataclass(frozen=True)
class LogConfig:
    """The topic options that a log uses, by Kafka's names. Times are in ms, sizes in bytes."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * _DAY
    """-1 means no limit, as in ``retention_bytes``."""
    retention_bytes: int = -1
    flush_messages: int = _LONG
    flush_ms: int = _LONG
    file_delete_delay_ms: int = 60_000
    compact: bool = False
    """Whether ``cleanup.policy`` contains "compact". The next four options are only for compaction."""
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _LONG
    delete_retention_ms: int = _DAY
    append_time: bool = False
    """Whether ``message.timestamp.type`` is LogAppendTime: the broker's clock sets the timestamps."""


class LogCheckpoint(NamedTuple):
    """A log's entries in the checkpoint files of the data directory.

    Attributes:
        start_offset: The log's start offset; 0 if that is the first segment's base offset.
        recovery_point: Everything before this offset has been flushed.
        cleaned_to: Everything before this offset has been compacted.
        clean_shutdown: Whether the broker was shut down cleanly. If so, no segment needs recovery.
    """

    start_offset: int = 0
    recovery_point: int = 0
    cleaned_to: int = 0
    clean_shutdown: bool = False


class LogAppendInfo(NamedTuple):
    """The result of an append. ``timestamp`` (ms) is -1 unless the broker set it (LogAppendTime)."""

    base_offset: int
    last_offset: int
    timestamp: int
    duplicate: bool


class Span(NamedTuple):
    """Consecutive whole batches of one segment, located but not read yet."""

    segment: Segment
    position: int
    size: int

    def read(self) -> bytes:
        """Read the batches."""
        return self.segment.read(self.position, self.size) if self.size else b""
