"""The reports of :meth:`Consumer.run`: counts by topic, and its current state."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aiokproto.types import TopicPartition


@dataclass
class TopicCounts:
    """Counts of the records of one topic.

    Attributes:
        processed: Records that the handler has finished.
        retried: Failed calls that were or will be repeated, either in place or through a retry topic.
        dead_lettered: Records written to the dead-letter topic.
        failed: Calls of the handler that raised or took too long.
    """

    processed: int = 0
    retried: int = 0
    dead_lettered: int = 0
    failed: int = 0


@dataclass(frozen=True)
class RunSummary:
    """What :meth:`Consumer.run` has done.

    Attributes:
        topics: Counts for each topic with a record.
    """

    topics: Mapping[str, TopicCounts]

    @property
    def processed(self) -> int:
        """Records that the handler has finished."""
        return sum(each.processed for each in self.topics.values())

    @property
    def retried(self) -> int:
        """Failed calls that were or will be repeated."""
        return sum(each.retried for each in self.topics.values())

    @property
    def dead_lettered(self) -> int:
        """Records written to the dead-letter topic."""
        return sum(each.dead_lettered for each in self.topics.values())

    @property
    def failed(self) -> int:
        """Calls of the handler that raised or took too long."""
        return sum(each.failed for each in self.topics.values())


@dataclass(frozen=True)
class RunStats:
    """What ``run()`` has done since the consumer was created, over all runs, and what it's doing now.

    Attributes:
        processed: Records that the handler has finished.
        retried: Failed calls that were or will be repeated; for a share consumer, released records.
        dead_lettered: Records written to the dead-letter topic; for a share consumer, rejected records.
        failed: Calls of the handler that raised or took too long.
        pending: Records that were taken but aren't finished.
        running: Running calls of the handler, including calls that were left alone when a run ended.
    """

    processed: int
    retried: int
    dead_lettered: int
    failed: int
    pending: int
    running: int


@dataclass(frozen=True)
class PartitionProgress:
    """The records of one partition that :meth:`Consumer.run` has taken but not finished.

    Attributes:
        pending: The number of these records.
        running: The number of running calls of the handler.
        retrying: The number of records waiting for a retry.
        watermark: The lowest unfinished offset, which is the offset to commit; None if there is none.
        oldest_ms: The age of the record at that offset by its timestamp, in ms; None if there is none, or its timestamp
            is unknown.
    """

    pending: int
    running: int
    retrying: int
    watermark: int | None
    oldest_ms: int | None


@dataclass(frozen=True)
class RunStatus:
    """What :meth:`Consumer.run` is doing.

    Attributes:
        active: Whether it's running.
        stopping: Whether it has stopped starting calls.
        pending: Records that were taken but aren't finished.
        pending_bytes: The approximate memory that these records occupy, in bytes.
        running: Running calls of the handler.
        retrying: Records waiting for a retry.
        counts: The counts so far.
        partitions: Progress by partition.
    """

    active: bool
    stopping: bool
    pending: int
    pending_bytes: int
    running: int
    retrying: int
    counts: RunSummary
    partitions: Mapping[TopicPartition, PartitionProgress] = field(default_factory=dict)
