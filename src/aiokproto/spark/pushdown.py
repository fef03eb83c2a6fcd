"""Filters of a query, made into the offsets to read. Pure.

Spark passes the filters that compare a column with a literal, and all of them hold (AND). What they say of topic,
partition and offset is exact. Of timestamps only a lower bound can be used: they need not ascend with offsets, so that
records after one that is too late can be early enough. ListOffsets finds the first record that is late enough.

Spark checks all filters again: a filter that is not understood here costs time, and never a row.
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
"""Intervals of integers, each with its first and its last one; in order, with gaps between them."""

ALL: Numbers = ((-INT64_MAX - 1, INT64_MAX),)
NONE: Numbers = ()

MAX_RANGES = 16
"""Most ranges of a partition: each is a task. Filters that leave more of them are read from the first to the last."""

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MICROSECOND = timedelta(microseconds=1)
_EQUAL = ("EqualTo", "EqualNullSafe")
_PARTS_OF_TEXT = ("StringStartsWith", "StringEndsWith", "StringContains")
_UNKNOWN_WITH_NULL = ("EqualTo", "GreaterThan", "GreaterThanOrEqual", "LessThan", "LessThanOrEqual", *_PARTS_OF_TEXT)


@dataclass(frozen=True)
class Conditions:
    """What all filters together say of the records.

    Attributes:
        topic: The filters on the topic.
        partitions: The partitions that are left.
        offsets: The offsets that are left, in every partition.
        since: The earliest timestamp (ms) of a record that is left; None for any.
    """

    topic: tuple[Any, ...] = ()
    partitions: Numbers = ALL
    offsets: Numbers = ALL
    since: int | None = None

    def narrow(self, ranges: Iterable[OffsetRange]) -> list[OffsetRange]:
        """Return the parts of the ranges that the filters on topic, partition and offset leave."""
        wholes = list(ranges)
        # Once for each topic: a list of names can be long, and a topic can have many partitions.
        topics = {name for name in {one.topic for one in wholes} if all(_topic_is(found, name) for found in self.topic)}
        return [
            part
            for one in wholes
            if one.topic in topics and _between(self.partitions, one.partition, one.partition)
            for part in _parts(one, self.offsets)
        ]

    def starting_at(
        self, ranges: Iterable[OffsetRange], first: Mapping[TopicPartition, int | None]
    ) -> list[OffsetRange]:
        """Return the parts of the ranges from the first offsets with a timestamp of at least ``since`` on.

        Args:
            ranges: The ranges.
            first: The offsets, as requested after the ends of the ranges; None where there is no such record.
        """
        found = [(one, first[one.topic_partition]) for one in ranges]
        return [
            replace(one, start=max(one.start, offset))
            for one, offset in found
            if offset is not None and offset < one.end
        ]


def parse_filters(filters: Iterable[Any]) -> Conditions:
    """Return what filters of PySpark (from 4.1 on) say; those on other columns say nothing."""
    topic: list[Any] = []
    partitions = offsets = ALL
    since: int | None = None
    for one in filters:
        column = _column(one)
        if column == "topic":
            topic.append(one)
        elif column == "partition":
            partitions = _both(partitions, _numbers(one))
        elif column == "offset":
            offsets = _both(offsets, _numbers(one))
        elif column == "timestamp" and (bound := _lower_bound(one)) is not None:
            since = bound if since is None else max(since, bound)
    # No record has a negative timestamp, except in the format without any: then it is -1, which a broker does not find.
    return Conditions(tuple(topic), partitions, offsets, since if since is not None and since > 0 else None)


def _column(one: Any) -> str | None:
    """Return the name of a filter's column; None for a field of a struct."""
    if _kind(one) == "Not":
        return _column(one.child)
    path: tuple[str, ...] = getattr(one, "attribute", ())
    return path[0] if len(path) == 1 else None


def _kind(one: Any) -> str:
    # By name: PySpark 4.0 does not have these classes, and this module does not need PySpark.
    return type(one).__name__


def _unknown(one: Any) -> bool:
    """Whether the filter compares with null, or is the negation of one that does: it holds for no row."""
    if _kind(one) == "Not":
        one = one.child
        if _kind(one) == "In" and None in one.value:
            return True
    return _kind(one) in _UNKNOWN_WITH_NULL and one.value is None


def _numbers(one: Any) -> Numbers:
    """Return the numbers for which a filter holds, of a column that is never null."""
    if _unknown(one):
        return NONE
    if _kind(one) == "Not":
        child = _understood(one.child)
        return ALL if child is None else _others(child)
    found = _understood(one)
    return ALL if found is None else found


def _understood(one: Any) -> Numbers | None:
    kind = _kind(one)
    if kind in ("IsNull", "IsNotNull"):
        return ALL if kind == "IsNotNull" else NONE
    value: Any = getattr(one, "value", None)
    if kind == "In":
        listed = [each for each in value if each is not None]
        if not all(type(each) is int for each in listed):
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
    return _both(ALL, (limits[kind],)) if kind in limits else None


def _joined(values: Sequence[int]) -> Numbers:
    found: list[tuple[int, int]] = []
    for value in values:
        if found and value <= found[-1][1] + 1:
            found[-1] = found[-1][0], value
        else:
            found.append((value, value))
    return tuple(found)


def _both(first: Numbers, second: Numbers) -> Numbers:
    """Return the numbers that are in both. Linear: lists in a query can have many thousand numbers."""
    common: list[tuple[int, int]] = []
    at, other = 0, 0
    while at < len(first) and other < len(second):
        low, high = max(first[at][0], second[other][0]), min(first[at][1], second[other][1])
        if low <= high:
            common.append((low, high))
        if first[at][1] == high:
            at += 1
        else:
            other += 1
    return tuple(common)


def _others(numbers: Numbers) -> Numbers:
    """Return the numbers that are not among these."""
    least, most = ALL[0]
    lows = [least, *(high + 1 for _, high in numbers)]
    highs = [*(low - 1 for low, _ in numbers), most]
    return tuple((low, high) for low, high in zip(lows, highs, strict=True) if low <= high)


def _between(numbers: Numbers, first: int, last: int) -> Numbers:
    """Return the intervals that have numbers between two, both inclusive."""
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


def _topic_is(one: Any, topic: str) -> bool:
    """Return whether a filter can hold for the records of a topic."""
    if _unknown(one):
        return False
    kind = _kind(one)
    if kind == "Not":
        # What is not understood holds for every topic, and so does its negation.
        return not _understands(one.child) or not _topic_is(one.child, topic)
    if not _understands(one):
        return True
    value: Any = getattr(one, "value", None)
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


def _understands(one: Any) -> bool:
    kind = _kind(one)
    if kind in ("IsNull", "IsNotNull"):
        return True
    value: Any = getattr(one, "value", None)
    if kind == "In":
        return all(each is None or isinstance(each, str) for each in value)
    if kind == "EqualNullSafe" and value is None:
        return True
    return isinstance(value, str) and kind in (*_EQUAL, *_PARTS_OF_TEXT)


def _lower_bound(one: Any) -> int | None:
    """Return the earliest millisecond for which a filter on the timestamp can hold; None if there is none."""
    kind = _kind(one)
    if kind == "In":
        bounds = [_micros(value) for value in one.value if value is not None]
        known = [bound for bound in bounds if bound is not None]
        return -(-min(known) // 1000) if known and len(known) == len(bounds) else None
    micros = _micros(getattr(one, "value", None))
    if micros is None:
        return None
    if kind in (*_EQUAL, "GreaterThanOrEqual"):
        return -(-micros // 1000)
    return micros // 1000 + 1 if kind == "GreaterThan" else None


def _micros(value: object) -> int | None:
    # One without a zone is of another type of Spark.
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - _EPOCH) // _MICROSECOND
