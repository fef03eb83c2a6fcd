"""Turns the filters of a query into the offsets to read. Pure.

Spark passes the filters that compare a column with a literal; all of them hold (AND). Filters on topic, partition and
offset are applied exactly. Only a lower bound of the timestamp can be used, because timestamps needn't ascend with
offsets: a record that is too late can come before one that is early enough. ListOffsets finds the first record that is
late enough.

Spark checks all filters again, so a filter that isn't understood here costs time, but never a row.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Any

from aiokproto.spark.offsets import OffsetRange
from aiokproto.spark.option_table import INT64_MAX
from aiokproto.types import TopicPartition

Numbers = tuple[tuple[int, int], ...]
"""Intervals of integers, each as its first and last number; in order, with gaps between them."""

ALL: Numbers = ((-INT64_MAX - 1, INT64_MAX),)
NONE: Numbers = ()

MAX_RANGES = 16
"""Maximum number of ranges in a partition; each is a task. If filters leave more, one range covers them all."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_EQUAL = ("EqualTo", "EqualNullSafe")
_PARTS_OF_TEXT = ("StringStartsWith", "StringEndsWith", "StringContains")
_UNKNOWN_WITH_NULL = ("EqualTo", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual", *_PARTS_OF_TEXT)


@dataclass(frozen=True)
class Conditions:
    """The conditions on records from all filters together.

    Attributes:
        topic: The filters on the topic.
        partitions: The partitions to read.
        offsets: The offsets to read, in every partition.
        since: The earliest timestamp (ms) of a record to read; None for any.
    """

    topic: tuple[Any, ...] = ()
    partitions: Numbers = ALL
    offsets: Numbers = ALL
    since: int | None = None

    def narrow(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """Narrow the ranges to what the filters on topic, partition and offset allow."""
        wholes = list(ranges)
        # Check each topic once: a list of names can be long, and a topic can have many partitions.
        names = {whole.topic for whole in wholes}
        topics = {name for name in names if all(_may_hold(found, name) for found in self.topic)}
        return [
            part
            for whole in wholes
            if whole.topic in topics and _between(self.partitions, whole.partition, whole.partition)
            for part in _parts(whole, self.offsets)
        ]

    def starting_at(
        self, ranges: Iterable[OffsetRange], first: Mapping[TopicPartition, int | None]
    ) -> list[OffsetRange]:
        """Narrow the ranges to start at the first offsets with a timestamp of at least ``since``.

        Args:
            ranges: The ranges.
            first: These first offsets, requested after the ends of the ranges; None if there is no such record.
        """
        found = [(whole, first[whole.topic_partition]) for whole in ranges]
        return [
            replace(whole, start=max(whole.start, offset))
            for whole, offset in found
            if offset is not None and offset < whole.end
        ]


def parse_filters(filters: Iterable[Any]) -> Conditions:
    """Return the conditions from PySpark's filters (4.1+). Filters on other columns are ignored."""
    topic: list[Any] = []
    partitions = offsets = ALL
    since: int | None = None
    for given in filters:
        column = _column(given)
        if column == "topic":
            topic.append(given)
        elif column == "partition":
            partitions = _intersection(partitions, _numbers(given))
        elif column == "offset":
            offsets = _intersection(offsets, _numbers(given))
        elif column == "timestamp" and (bound := _lower_bound(given)) is not None:
            since = bound if since is None else max(since, bound)
    # Ignore a bound that isn't positive: the only negative timestamp is -1, of records in the format without
    # timestamps, and brokers don't find these records.
    return Conditions(tuple(topic), partitions, offsets, since if since is not None and since > 0 else None)


def _column(given: Any) -> str | None:
    """Return the name of a filter's column; None for a field of a struct."""
    if _kind(given) == "Not":
        return _column(given.child)
    path: tuple[str, ...] = getattr(given, "attribute", ())
    return path[0] if len(path) == 1 else None


def _kind(given: Any) -> str:
    # Compare names because PySpark 4.0 doesn't have these classes, and this module doesn't need PySpark.
    return type(given).__name__


def _is_unknown(given: Any) -> bool:
    """Return whether a filter compares with null, or negates one that does. Such a filter doesn't hold for any row."""
    if _kind(given) == "Not":
        given = given.child
        if _kind(given) == "In" and None in given.value:
            return True
    return _kind(given) in _UNKNOWN_WITH_NULL and given.value is None


def _numbers(given: Any) -> Numbers:
    """Return the numbers for which a filter holds, of a column that is never null."""
    if _is_unknown(given):
        return NONE
    if _kind(given) == "Not":
        child = _parse_numbers(given.child)
        return ALL if child is None else _complement(child)
    found = _parse_numbers(given)
    return ALL if found is None else found


def _parse_numbers(given: Any) -> Numbers | None:
    """Return the numbers for which a filter without negation holds; None if it isn't understood."""
    kind = _kind(given)
    if kind in ("IsNull", "IsNotNull"):
        return ALL if kind == "IsNotNull" else NONE
    value: Any = getattr(given, "value", None)
    if kind == "In":
        listed = [number for number in value if number is not None]
        if not all(type(number) is int for number in listed):
            return None
        return _joined(sorted(listed))
    if value is None and kind == "EqualNullSafe":
        return NONE
    if type(value) is not int:
        return None
    least, most = ALL[0]
    limits = {
        "EqualTo": (value, value),
        "EqualNullSafe": (value, value),
        "GreaterThan": (value + 1, most),
        "GreaterThanOrEqual": (value, most),
        "LessThan": (least, value - 1),
        "LessThanOrEqual": (least, value),
    }
    return _intersection(ALL, (limits[kind],)) if kind in limits else None


def _joined(values: Sequence[int]) -> Numbers:
    found: list[tuple[int, int]] = []
    for value in values:
        if found and value <= found[-1][1] + 1:
            found[-1] = found[-1][0], value
        else:
            found.append((value, value))
    return tuple(found)


def _intersection(first: Numbers, second: Numbers) -> Numbers:
    """Return the numbers in both. It takes linear time: a query can list thousands of numbers."""
    common: list[tuple[int, int]] = []
    i, j = 0, 0
    while i < len(first) and j < len(second):
        low, high = max(first[i][0], second[j][0]), min(first[i][1], second[j][1])
        if low <= high:
            common.append((low, high))
        if first[i][1] == high:
            i += 1
        else:
            j += 1
    return tuple(common)


def _complement(numbers: Numbers) -> Numbers:
    """Return all numbers that aren't among these."""
    least, most = ALL[0]
    lows = [least, *(high + 1 for _, high in numbers)]
    highs = [*(low - 1 for low, _ in numbers), most]
    return tuple((low, high) for low, high in zip(lows, highs, strict=True) if low <= high)


def _between(numbers: Numbers, first: int, last: int) -> Numbers:
    """Return the intervals with numbers from ``first`` to ``last``, both inclusive."""
    start = bisect_left(numbers, first, key=lambda interval: interval[1])
    end = bisect_right(numbers, last, key=lambda interval: interval[0])
    return numbers[start:end]


def _parts(whole: OffsetRange, offsets: Numbers) -> Iterator[OffsetRange]:
    if not whole.size:
        return
    parts = _between(offsets, whole.start, whole.end - 1)
    if len(parts) > MAX_RANGES:
        parts = ((parts[0][0], parts[-1][1]),)
    for first, last in parts:
        yield replace(whole, start=max(first, whole.start), end=min(last + 1, whole.end))


def _may_hold(given: Any, topic: str) -> bool:
    """Return whether a filter can hold for the records of a topic."""
    if _is_unknown(given):
        return False
    kind = _kind(given)
    if kind == "Not":
        # A filter that isn't understood may hold for every topic, and so may its negation.
        return not _is_understood(given.child) or not _may_hold(given.child, topic)
    if not _is_understood(given):
        return True
    value: Any = getattr(given, "value", None)
    if kind in ("IsNull", "IsNotNull"):
        return kind == "IsNotNull"
    if kind == "In":
        return topic in value
    if kind in _EQUAL:
        return bool(topic == value)
    test = {
        "StringStartsWith": topic.startswith,
        "StringEndsWith": topic.endswith,
        "StringContains": topic.__contains__,
    }
    return bool(test[kind](value))


def _is_understood(given: Any) -> bool:
    kind = _kind(given)
    if kind in ("IsNull", "IsNotNull"):
        return True
    value: Any = getattr(given, "value", None)
    if kind == "In":
        return all(name is None or isinstance(name, str) for name in value)
    if kind == "EqualNullSafe" and value is None:
        return True
    return isinstance(value, str) and kind in (*_EQUAL, *_PARTS_OF_TEXT)


def _lower_bound(given: Any) -> int | None:
    """Return the earliest millisecond for which a filter on the timestamp can hold; None if there is no such bound."""
    kind = _kind(given)
    if kind == "In":
        bounds = [_micros(value) for value in given.value if value is not None]
        known = [bound for bound in bounds if bound is not None]
        return -(-min(known) // 1000) if known and len(known) == len(bounds) else None
    micros = _micros(getattr(given, "value", None))
    if micros is None:
        return None
    if kind in (*_EQUAL, "GreaterThanOrEqual"):
        return -(-micros // 1000)
    return micros // 1000 + 1 if kind == "GreaterThan" else None


def _micros(value: object) -> int | None:
    # A datetime without a zone is a different type in Spark.
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - _EPOCH) // _MICROSECOND
