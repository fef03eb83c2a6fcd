"""Which offsets to read: what the options ask for, what the log has, and how that is cut into tasks. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from aiokproto.errors import ConfigurationError, KafkaError
from aiokproto.spark.options_values import INT64_MAX, check_topic, shorten
from aiokproto.types import TopicPartition

EARLIEST = -2
LATEST = -1
"""As in ListOffsets requests, and in the official connector's JSON."""

_NAMED = 10
"""So many partitions are named in a message."""


class DataLossError(KafkaError):
    """Records between the wanted offset and the start of the log are gone: retention or DeleteRecords took them."""


@dataclass(frozen=True)
class Bound:
    """Where the ranges start, or where they end.

    Attributes:
        option: The option it came from, for messages.
        every: One answer for all partitions: ``EARLIEST``, ``LATEST``, or a timestamp (ms); None if each has its own.
        each: An answer for each partition: an offset, ``EARLIEST`` or ``LATEST``; or a timestamp (ms).
        by_timestamp: Whether the numbers are timestamps.
    """

    option: str
    every: int | None = None
    each: Mapping[TopicPartition, int] | None = None
    by_timestamp: bool = False

    def of(self, partition: TopicPartition) -> int:
        """The answer for one partition, which must be among those of :meth:`check_covers`."""
        if self.each is not None:
            return self.each[partition]
        assert self.every is not None, "either all partitions have one answer or each has its own"
        return self.every

    def check_covers(self, partitions: Collection[TopicPartition]) -> None:
        """Compare with the partitions that are to be read.

        Raises:
            ConfigurationError: Some are missing, or others are named; either is likely a mistake.
        """
        if self.each is None:
            return
        if missing := set(partitions) - set(self.each):
            raise ConfigurationError(f"{self.option} says nothing of {_list(missing)}")
        if extra := set(self.each) - set(partitions):
            raise ConfigurationError(f"{self.option} names what is not read or does not exist: {_list(extra)}")


def _list(partitions: Iterable[TopicPartition]) -> str:
    found = sorted(partitions)
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return ", ".join(map(str, found[:_NAMED])) + more


def parse_offsets(option: str, text: str, *, allowed: int | None) -> Mapping[TopicPartition, int]:
    """Offsets or timestamps as JSON, ``{"topic": {"0": 23, "1": -2}}``.

    Args:
        option: Its name, for messages.
        text: The JSON.
        allowed: The negative number that has a meaning here: ``EARLIEST``, ``LATEST``, or None.

    Raises:
        ConfigurationError: It is something else.
    """
    offsets: dict[TopicPartition, int] = {}
    for topic, partitions in _json_object(option, text).items():
        if not isinstance(partitions, dict):
            problem = f"{option}: {topic} must have an object of partitions, not {shorten(partitions)}"
            raise ConfigurationError(problem)
        for partition, offset in partitions.items():
            if not re.fullmatch("[0-9]{1,10}", partition):
                raise ConfigurationError(f"{option}: {shorten(partition)} is no partition of {topic}")
            if isinstance(offset, bool) or not isinstance(offset, int) or offset > INT64_MAX:
                raise ConfigurationError(
                    f"{option}: {topic}-{partition} has {shorten(offset)}, which is no whole number"
                )
            if offset < 0 and offset != allowed:
                also = f", or {allowed}" if allowed is not None else ""
                raise ConfigurationError(f"{option}: {topic}-{partition} has {offset}; it takes 0 and more{also}")
            offsets[TopicPartition(topic, int(partition))] = offset
    return offsets


def parse_assignment(option: str, text: str) -> Mapping[str, tuple[int, ...]]:
    """Partitions as JSON, ``{"topic": [0, 1]}``.

    Raises:
        ConfigurationError: It is something else, or has no partition.
    """
    assignment: dict[str, tuple[int, ...]] = {}
    for topic, partitions in _json_object(option, text).items():
        if not isinstance(partitions, list) or not all(type(number) is int and number >= 0 for number in partitions):
            problem = f"{option}: {topic} must have a list of partition numbers, not {shorten(partitions)}"
            raise ConfigurationError(problem)
        # As in the official connector nothing is asked of a topic without any.
        if partitions:
            assignment[topic] = tuple(sorted(set(partitions)))
    if not any(assignment.values()):
        raise ConfigurationError(f"{option} names no partition")
    return assignment


def format_offsets(offsets: Mapping[TopicPartition, int]) -> str:
    """The JSON that :func:`parse_offsets` reads."""
    topics: dict[str, dict[str, int]] = {}
    for partition, offset in sorted(offsets.items()):
        topics.setdefault(partition.topic, {})[str(partition.partition)] = offset
    return json.dumps(topics)


def _json_object(option: str, text: str) -> dict[str, object]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{option} is no JSON: {error}") from None
    if not isinstance(value, dict):
        raise ConfigurationError(f"{option} must be a JSON object by topic, not {shorten(value)}")
    for topic in value:
        try:
            check_topic(topic)
        except ValueError as error:
            raise ConfigurationError(f"{option}: {error}") from None
    return value


@dataclass(frozen=True)
class Log:
    """What a partition has.

    Attributes:
        topic_id: The topic's id; all zero with brokers before 2.8.
        start: Its first offset.
        end: The offset after the last record that may be read: the high watermark, or last stable offset.
        leader_epoch: The epoch of ``end``; -1 when unknown.
        at_start: The first offset at or after the starting timestamp, None if there is no such record.
        at_end: The same of the ending timestamp.
    """

    topic_id: bytes
    start: int
    end: int
    leader_epoch: int = -1
    at_start: int | None = None
    at_end: int | None = None


@dataclass(frozen=True)
class OffsetRange:
    """Offsets of one partition to read, ``start`` up to and without ``end``.

    There may be fewer records: transaction markers, aborted and compacted records leave gaps.
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
        """Number of offsets."""
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
    """The range of one partition, and a warning if it is not quite what was asked for.

    Args:
        partition: The partition.
        log: What it has.
        starting: Where to start.
        ending: Where to end.
        unmatched_is_latest: Read nothing of a partition that has no record at or after the starting timestamp.
        fail: Whether it is an error when records that are wanted are gone (``failOnDataLoss``).
        resumed: Whether the start is where the last load ended. One that ends earlier has nothing to read then.
        pinned: Whether the end was there when it was planned: then it is an error in any case if it is not.

    Raises:
        DataLossError: The start, or even the end, lies below the log.
        ConfigurationError: An offset lies beyond the log's end, no record matches the starting timestamp, or the range
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
        problem = f"{partition} begins at offset {log.start}: all before {ending.option}, which is {end}, is gone"
        if fail:
            raise DataLossError(f"{problem} (failOnDataLoss=false reads nothing of it)")
        end, warning = start, problem
    if end < start and not resumed:
        raise ConfigurationError(
            f"{partition} ends ({ending.option}: offset {end}) before it starts ({starting.option}: offset {start})"
        )
    # Where nothing is to be read the range still says how far the partition has been read: a load goes on from its end.
    end = max(start, end)
    return OffsetRange(partition.topic, log.topic_id, partition.partition, start, end, log.leader_epoch), warning


def _start(
    partition: TopicPartition, log: Log, bound: Bound, *, unmatched_is_latest: bool, fail: bool
) -> tuple[int, str | None]:
    wanted = bound.of(partition)
    if bound.by_timestamp:
        if log.at_start is not None:
            # Written since the end was asked for: it belongs to the next read.
            return min(log.at_start, log.end), None
        if unmatched_is_latest:
            return log.end, None
        raise ConfigurationError(
            f"{bound.option}: {partition} has no record with timestamp {wanted} or later "
            "(startingOffsetsByTimestampStrategy=latest reads nothing of such a partition)"
        )
    if wanted == EARLIEST:
        return log.start, None
    if wanted < log.start:
        problem = f"{partition} begins at offset {log.start}: {log.start - wanted} offsets from {wanted} on are gone"
        if fail:
            raise DataLossError(f"{problem} (failOnDataLoss=false goes on with what is there)")
        return log.start, problem
    if wanted > log.end:
        raise ConfigurationError(f"{bound.option}: {partition} ends at offset {log.end}, before {wanted}")
    return wanted, None


def _end(partition: TopicPartition, log: Log, bound: Bound) -> int:
    if bound.by_timestamp:
        return log.end if log.at_end is None else min(log.at_end, log.end)
    wanted = bound.of(partition)
    return log.end if wanted == LATEST else wanted


def split(
    ranges: Iterable[OffsetRange], min_partitions: int | None = None, max_records: int | None = None
) -> list[OffsetRange]:
    """Cut ranges for more tasks; empty ones fall away. Cuts count offsets: what lies between them is not known.

    Args:
        ranges: One a partition.
        min_partitions: About so many tasks at least, long ranges being cut more often.
        max_records: So many offsets at most in a task.
    """
    whole = [one for one in ranges if one.size > 0]
    total = sum(one.size for one in whole)
    cuts: list[OffsetRange] = []
    for one in whole:
        pieces = 1
        if min_partitions and min_partitions > len(whole):
            pieces = max(pieces, round(one.size * min_partitions / total))
        if max_records:
            pieces = max(pieces, -(-one.size // max_records))
        cuts.extend(_pieces(one, min(pieces, one.size)))
    return cuts


def _pieces(whole: OffsetRange, count: int) -> Iterator[OffsetRange]:
    for index in range(count):
        start = whole.start + whole.size * index // count
        end = whole.start + whole.size * (index + 1) // count
        yield replace(whole, start=start, end=end)
