"""Offset ranges: the bounds that options define, their resolution against the log, and the split into tasks. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from aiokproto.errors import ConfigurationError, KafkaError
from aiokproto.spark.option_table import INT64_MAX, check_topic, shorten
from aiokproto.types import TopicPartition

EARLIEST = -2
LATEST = -1
"""The special timestamps of ListOffsets requests. The official connector's JSON uses them as offsets, too."""

_MAX_NAMED = 10
"""Maximum number of partitions that a message names."""

_EXAMPLE = '{"topic": {"0": 23}}'


class DataLossError(KafkaError):
    """Records between the requested offset and the start of the log were deleted, by retention or DeleteRecords."""


@dataclass(frozen=True)
class Bound:
    """The start, or the end, of the ranges.

    Attributes:
        option: The option that defines the bound, for messages.
        every: The value for all partitions: ``EARLIEST``, ``LATEST``, or a timestamp (ms); None if each has its own.
        each: The value for each partition: an offset, ``EARLIEST`` or ``LATEST``; or a timestamp (ms). None if all have
            the same.
        by_timestamp: Whether the values are timestamps.
    """

    option: str
    every: int | None = None
    each: Mapping[TopicPartition, int] | None = None
    by_timestamp: bool = False

    def of(self, partition: TopicPartition) -> int:
        """Return the value for a partition, which :meth:`check_covers` must have accepted."""
        if self.each is not None:
            return self.each[partition]
        assert self.every is not None, "either all partitions have one value or each has its own"
        return self.every

    def check_covers(self, partitions: Collection[TopicPartition]) -> None:
        """Check that the bound has a value for each of these partitions, and for no other.

        Raises:
            ConfigurationError: A partition is missing, or isn't one of these; either is probably a mistake.
        """
        if self.each is None:
            return
        if missing := set(partitions) - set(self.each):
            raise ConfigurationError(
                f"{self.option} has no value for {_list(missing)}: name every partition of the topics that are read"
            )
        if extra := set(self.each) - set(partitions):
            raise ConfigurationError(
                f"{self.option} names partitions that are not read or do not exist: {_list(extra)}"
            )


def _list(partitions: Iterable[TopicPartition]) -> str:
    found = sorted(partitions)
    more = f" and {len(found) - _MAX_NAMED} more" if len(found) > _MAX_NAMED else ""
    return ", ".join(map(str, found[:_MAX_NAMED])) + more


def parse_offsets(
    option: str, text: str, *, allowed: Collection[int], words: Sequence[str] = ()
) -> Mapping[TopicPartition, int]:
    """Parse offsets or timestamps from JSON, ``{"topic": {"0": 23, "1": -2}}``.

    Args:
        option: The name of the option, for messages.
        text: The JSON.
        allowed: The negative numbers that are valid: ``EARLIEST``, ``LATEST``, both or neither.
        words: The words that the option accepts instead of JSON, for messages.

    Raises:
        ConfigurationError: The text isn't JSON of this form, or has an invalid topic, partition or number.
    """
    offsets: dict[TopicPartition, int] = {}
    for topic, partitions in _json_object(option, text, words).items():
        if not isinstance(partitions, dict):
            problem = f"{option}: {topic} must have an object of partitions, not {shorten(partitions)}"
            raise ConfigurationError(problem)
        for partition, offset in partitions.items():
            if not re.fullmatch("[0-9]{1,10}", partition):
                raise ConfigurationError(f"{option}: {shorten(partition)} is not a partition number, in topic {topic}")
            if isinstance(offset, bool) or not isinstance(offset, int) or offset > INT64_MAX:
                raise ConfigurationError(
                    f"{option}: {topic}-{partition} has {shorten(offset)}, which is not a 64-bit integer"
                )
            if offset < 0 and offset not in allowed:
                also = "".join(f", or {one}" for one in allowed)
                raise ConfigurationError(f"{option}: {topic}-{partition} has {offset}; must be at least 0{also}")
            offsets[TopicPartition(topic, int(partition))] = offset
    return offsets


def parse_assignment(option: str, text: str) -> Mapping[str, tuple[int, ...]]:
    """Parse partitions from JSON, ``{"topic": [0, 1]}``.

    Raises:
        ConfigurationError: The text isn't JSON of this form, or doesn't name any partition.
    """
    assignment: dict[str, tuple[int, ...]] = {}
    for topic, partitions in _json_object(option, text).items():
        if not isinstance(partitions, list) or not all(type(number) is int and number >= 0 for number in partitions):
            problem = f"{option}: {topic} must have a list of partition numbers, not {shorten(partitions)}"
            raise ConfigurationError(problem)
        # As in the official connector, a topic with an empty list isn't read, and needn't exist.
        if partitions:
            assignment[topic] = tuple(sorted(set(partitions)))
    if not any(assignment.values()):
        raise ConfigurationError(f"{option} names no partition")
    return assignment


def format_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """Return the JSON that :func:`parse_offsets` parses."""
    topics: dict[str, dict[str, int]] = {}
    for partition, offset in sorted(offsets.items()):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return json.dumps(topics)


def _json_object(option: str, text: str, words: Sequence[str] = ()) -> dict[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        problem = f"{option} is not valid JSON: {error}"
        if words and not text.lstrip().startswith("{"):
            problem = f"{option} must be {', '.join(words)}, or JSON such as {_EXAMPLE}, not {shorten(text)}"
        raise ConfigurationError(problem) from None
    if not isinstance(value, dict):
        raise ConfigurationError(f"{option} must be a JSON object whose keys are topics, not {shorten(value)}")
    for topic in value:
        try:
            check_topic(topic)
        except ValueError as error:
            raise ConfigurationError(f"{option}: {error}") from None
    return value


@dataclass(frozen=True)
class Log:
    """The offsets of a partition's log, as its leader reports them.

    Attributes:
        topic_id: The topic's id; all zero with brokers before 2.8.
        start: The log start offset.
        end: The high watermark or, with ``read_committed``, the last stable offset.
        leader_epoch: The leader epoch of ``end``; -1 if unknown.
        high_watermark: The high watermark, if the last load has read beyond ``end``; otherwise None.
        at_start: The first offset at or after the starting timestamp, None if there is no such record.
        at_end: The first offset at or after the ending timestamp, None if there is no such record.
    """

    topic_id: bytes
    start: int
    end: int
    leader_epoch: int = -1
    high_watermark: int | None = None
    at_start: int | None = None
    at_end: int | None = None


@dataclass(frozen=True)
class OffsetRange:
    """The offsets of one partition to read, from ``start`` inclusive to ``end`` exclusive.

    A range can have fewer records than offsets: transaction markers, aborted and compacted records leave gaps.
    """

    topic: str
    topic_id: bytes
    partition: int
    start: int
    end: int
    leader_epoch: int = -1

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def size(self) -> int:
        """The number of offsets."""
        return self.end - self.start

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} offsets {self.start} to {self.end}"


def resolve(
    partition: TopicPartition,
    log: Log,
    starting: Bound,
    ending: Bound,
    *,
    unmatched_is_latest: bool,
    fail: bool,
    pinned: bool = False,
    resumed: bool = False,
) -> tuple[OffsetRange, str | None]:
    """Return the range to read of one partition, and a warning if it differs from the requested one.

    Args:
        partition: The partition.
        log: Its log.
        starting: The requested start.
        ending: The requested end.
        unmatched_is_latest: Read nothing from a partition that has no record at or after the starting timestamp.
        fail: Raise an error if requested records were deleted (``failOnDataLoss``).
        resumed: The start is the end of the last load. If the range ends earlier, that isn't an error, and nothing is
            read.
        pinned: The range was planned earlier, when the log reached its end. If the log now ends earlier, it was
            truncated, which is always an error.

    Raises:
        DataLossError: The start, or even the end, is before the log start offset.
        ConfigurationError: An offset is past the end of the log, no record matches the starting timestamp, or the range
            ends before it starts.
    """
    start, warning = _start(partition, log, starting, unmatched_is_latest=unmatched_is_latest, fail=fail)
    end = _end(partition, log, ending)
    if end > log.end:
        problem = f"{ending.option}: {partition} ends at offset {log.end}, before {end}"
        if fail or pinned:
            raise ConfigurationError(problem)
        end, warning = log.end, problem
    if end < log.start == start:
        problem = (
            f"{partition} begins at offset {log.start}: all records before offset {end} ({ending.option}) were deleted"
        )
        if fail:
            raise DataLossError(f"{problem}. Set failOnDataLoss=false to read nothing of it")
        end, warning = start, problem
    if end < start and not resumed:
        raise ConfigurationError(
            f"{partition} ends ({ending.option}: offset {end}) before it starts ({starting.option}: offset {start})"
        )
    # Return an empty range, too: it records the partition's position, and the next load starts at its end.
    end = max(start, end)
    return OffsetRange(partition.topic, log.topic_id, partition.partition, start, end, log.leader_epoch), warning


def _start(
    partition: TopicPartition, log: Log, bound: Bound, *, unmatched_is_latest: bool, fail: bool
) -> tuple[int, str | None]:
    requested = bound.of(partition)
    if bound.by_timestamp:
        if log.at_start is not None:
            # A later offset was written after the end was requested, so it belongs to the next read.
            return min(log.at_start, log.end), None
        if unmatched_is_latest:
            return log.end, None
        raise ConfigurationError(
            f"{bound.option}: {partition} has no record with timestamp {requested} or later "
            "(startingOffsetsByTimestampStrategy=latest reads nothing of such a partition)"
        )
    if requested == EARLIEST:
        return log.start, None
    if requested == LATEST:
        return log.end, None
    if requested < log.start:
        lost = log.start - requested
        problem = f"{partition} begins at offset {log.start}: {lost} offsets from {requested} on were deleted"
        if fail:
            raise DataLossError(f"{problem}. Set failOnDataLoss=false to continue at offset {log.start}")
        return log.start, problem
    if requested > (log.end if log.high_watermark is None else log.high_watermark):
        raise ConfigurationError(f"{bound.option}: {partition} ends at offset {log.end}, before {requested}")
    return requested, None


def _end(partition: TopicPartition, log: Log, bound: Bound) -> int:
    if bound.by_timestamp:
        return log.end if log.at_end is None else min(log.at_end, log.end)
    requested = bound.of(partition)
    return log.end if requested == LATEST else requested


def split(
    ranges: Iterable[OffsetRange], min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Split ranges into one range per task, and drop empty ones. The number of tasks is as in the official connector.

    The pieces of a range have about the same number of offsets. The number of records is unknown here.

    Args:
        ranges: One range per partition.
        min_partitions: The approximate number of tasks, if it exceeds the number of ranges. Longer ranges are split
            into more pieces.
        max_records: Maximum number of offsets in a task.
    """
    tasks = [one for one in ranges if one.size > 0]
    if max_records:
        tasks = _split(tasks, [-(-one.size // max_records) for one in tasks])
    if min_partitions and min_partitions > len(tasks):
        tasks = _split(tasks, _proportional([one.size for one in tasks], min_partitions))
    return tasks


def _proportional(sizes: Sequence[int], tasks: int) -> list[int]:
    """Return the number of pieces for each size, in proportion to the sizes.

    A small range is one task, however small. Large ranges share the remaining tasks: if they shared all of them, the
    small ranges would push the total above ``tasks``.
    """
    total = sum(sizes)
    large = [size for size in sizes if _share(size, total, tasks) > 1]
    left, large_total = max(tasks - len(sizes) + len(large), 1), sum(large)
    return [_share(size, large_total, left) if _share(size, total, tasks) > 1 else 1 for size in sizes]


def _share(size: int, total: int, tasks: int) -> int:
    """Return ``tasks * size / total``, rounded, and at least 1."""
    # Round halves up, as the official connector does.
    return max(int(tasks * size / total + 0.5), 1)


def _split(ranges: Iterable[OffsetRange], counts: Iterable[int]) -> list[OffsetRange]:
    return [piece for one, count in zip(ranges, counts, strict=True) for piece in _pieces(one, min(count, one.size))]


def _pieces(whole: OffsetRange, count: int) -> Iterator[OffsetRange]:
    for index in range(count):
        start = whole.start + whole.size * index // count
        end = whole.start + whole.size * (index + 1) // count
        yield replace(whole, start=start, end=end)
