"""The reports of :meth:`Consumer.run`: counts by topic, and what it's doing now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aiokproto.types import TopicPartition


@dataclass
class TopicCounts:
    """Counts of the records of one topic.

    Attributes:
        processed: Records that the handler has finished.
        retried: Failed calls that were, or will be, made again, either in place or after a retry topic.
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
        topics: Counts by topic, of topics with a record.
    """

    topics: Mapping[str, TopicCounts]

    @property
    def processed(self) -> int:
        """Records that the handler has finished."""
        return sum(each.processed for each in self.topics.values())

    @property
    def retried(self) -> int:
        """Failed calls that were made again."""
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
    """What ``run()`` has done since the consumer was created, in one run after the other, and what it is doing.

    Attributes:
        processed: Records that the handler has finished.
        retried: Failed calls that were, or will be, made again; of a share consumer, released records.
        dead_lettered: Records written to the dead-letter topic; of a share consumer, rejected records.
        failed: Calls of the handler that raised or took too long.
        pending: Records that were taken and are not finished. running: Calls of the handler that run, including those
        that were left alone when a run ended.
    """

    processed: int
    retried: int
    dead_lettered: int
    failed: int
    pending: int
    running: int


@dataclass(frozen=True)
class PartitionProgress:
    """The records of one partition that :meth:`Consumer.run` has taken and not finished.

    Attributes:
        pending: How many there are.
        running: How many calls of the handler run.
        retrying: How many wait for a retry.
        watermark: The lowest unfinished offset, which is what is committed; None if none is unfinished.
        oldest_ms: The age of that record by its timestamp, in ms; None if none is unfinished, or its time is unknown.
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
        active: Whether it runs.
        stopping: Whether it starts no more calls.
        pending: Records that were taken and are not finished.
        pending_bytes: About how many bytes they occupy.
        running: Calls of the handler that run.
        retrying: Records that wait for a retry.
        counts: What was done so far.
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
