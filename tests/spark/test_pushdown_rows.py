"""Pushdown against SQL's logic of three values: of random rows none that a query keeps is left out."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.spark.offsets import OffsetRange, split
from aiokproto.spark.option_table import INT64_MAX
from aiokproto.spark.pushdown import MAX_RANGES, parse_filters

source = pytest.importorskip("pyspark.sql.datasource")
if not hasattr(source, "EqualTo"):
    pytest.skip("PySpark has filters from 4.1 on", allow_module_level=True)

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
LOG = 60
"""Offsets of each partition."""


class Row(NamedTuple):
    topic: str
    partition: int
    offset: int
    timestamp: datetime
    key: bytes | None


def at(milliseconds: float) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


def order(left: Any, right: Any) -> int:
    """Compare as Spark does: NaN is the largest number; a datetime without a zone is one of the session's zone."""
    left, right = (
        one.replace(tzinfo=timezone(timedelta(hours=5))) if isinstance(one, datetime) and one.tzinfo is None else one
        for one in (left, right)
    )
    if isinstance(right, float) and math.isnan(right):
        return -1
    return int(left > right) - int(left < right)


Test = Callable[[Any, Any], bool]
COMPARISONS: dict[str, Test] = {
    "EqualTo": lambda found, value: order(found, value) == 0,
    "GreaterThan": lambda found, value: order(found, value) > 0,
    "GreaterThanOrEqual": lambda found, value: order(found, value) >= 0,
    "LessThan": lambda found, value: order(found, value) < 0,
    "LessThanOrEqual": lambda found, value: order(found, value) <= 0,
}
TEXTS: dict[str, Test] = {
    "StringStartsWith": str.startswith,
    "StringEndsWith": str.endswith,
    "StringContains": str.__contains__,
}


def holds(one: Any, row: Row) -> bool | None:
    """Return what SQL says of a row; None is unknown."""
    kind = type(one).__name__
    if kind == "Not":
        found = holds(one.child, row)
        return None if found is None else not found
    column = getattr(row, one.attribute[0])
    if kind in ("IsNull", "IsNotNull"):
        return bool((column is None) == (kind == "IsNull"))
    if kind == "EqualNullSafe":
        return column is None if one.value is None else column is not None and order(column, one.value) == 0
    if kind == "In":
        return in_list(column, one.value)
    if column is None or one.value is None:
        return None
    return (COMPARISONS | TEXTS)[kind](column, one.value)


def in_list(column: Any, values: Sequence[Any]) -> bool | None:
    if not values:
        return False
    if column is None:
        return None
    if any(value is not None and order(column, value) == 0 for value in values):
        return True
    return None if None in values else False


NUMBERS = st.integers(-2, LOG + 2) | st.sampled_from([INT64_MAX, -INT64_MAX - 1, INT64_MAX + 1, 1 << 70, -(1 << 70)])
ODD_NUMBERS = st.sampled_from([True, False, 5.0, 5.5, math.inf, -math.inf, math.nan, Decimal("7"), Decimal("7.5")])
TIMES = st.integers(-4, 40).map(lambda half: at(half / 2))
ODD_TIMES = st.sampled_from([at(5).replace(tzinfo=None), at(7).astimezone(timezone(timedelta(hours=-7))), at(-3e12)])
TOPICS = st.sampled_from(["a", "b", "ab", "c", ""])


def filters(columns: Sequence[tuple[str, st.SearchStrategy[Any]]]) -> st.SearchStrategy[Any]:
    @st.composite
    def one(draw: st.DrawFn) -> Any:
        column, values = draw(st.sampled_from(columns))
        literal = values | st.none()
        kinds = ["EqualTo", "EqualNullSafe", "In", "IsNull", "IsNotNull"]
        kind = draw(st.sampled_from([*kinds, *(TEXTS if column == "topic" else COMPARISONS)]))
        if kind == "In":
            made = source.In((column,), draw(st.lists(literal, max_size=50).map(tuple) | st.lists(literal, max_size=4)))
        elif kind in ("IsNull", "IsNotNull"):
            made = getattr(source, kind)((column,))
        else:
            made = getattr(source, kind)((column,), draw(literal))
        for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2, 3]))):
            made = source.Not(made)
        return made

    return one()


UNDERSTOOD = (("topic", TOPICS), ("partition", NUMBERS), ("offset", NUMBERS))
ALL_COLUMNS = (
    ("topic", TOPICS),
    ("partition", NUMBERS | ODD_NUMBERS),
    ("offset", NUMBERS | ODD_NUMBERS),
    ("timestamp", TIMES | ODD_TIMES),
    ("key", st.binary(max_size=1)),
)

times = st.lists(st.integers(-1, 20), min_size=LOG, max_size=LOG) | st.lists(
    st.integers(0, 20), min_size=LOG // 10, max_size=LOG // 10
).map(lambda batches: [time for time in batches for _ in range(10)])
"""Timestamps of a log in any order, some records without one; or those of batches that the broker timestamped."""


@st.composite
def ranges(draw: st.DrawFn) -> list[OffsetRange]:
    """Parts of the logs, as options select them; some are empty."""
    found = []
    for topic in ("a", "ab"):
        for partition in range(3):
            start, end = sorted((draw(st.integers(0, LOG)), draw(st.integers(0, LOG))))
            found.append(OffsetRange(topic, bytes(16), partition, start, end))
    return found


def rows(read: Sequence[OffsetRange], logs: Sequence[Sequence[int]]) -> list[Row]:
    return [
        Row(one.topic, one.partition, n, at(logs[one.partition][n]), None if n % 3 else b"")
        for one in read
        for n in range(one.start, one.end)
    ]


def pushed(given_: Sequence[Any], wholes: Sequence[OffsetRange], logs: Sequence[Sequence[int]]) -> list[OffsetRange]:
    """Return what is left to read, with a broker that looks for timestamps in all of the log."""
    conditions = parse_filters(given_)
    left = conditions.narrow(wholes)
    if (since := conditions.since) is None:
        return left
    first = {
        one.topic_partition: next((n for n, time in enumerate(logs[one.partition]) if time >= since), None)
        for one in left
    }
    return conditions.starting_at(left, first)


@given(
    st.lists(filters(ALL_COLUMNS), max_size=4),
    ranges(),
    st.lists(times, min_size=3, max_size=3),
    st.none() | st.integers(1, 40),
    st.none() | st.integers(1, 40),
)
def test_rows_for_which_all_filters_hold_are_read_once(
    given_: list[Any], wholes: list[OffsetRange], logs: list[list[int]], tasks: int | None, most: int | None
) -> None:
    def wanted(read: Sequence[OffsetRange]) -> list[Row]:
        return [row for row in rows(read, logs) if all(holds(one, row) is True for one in given_)]

    assert wanted(split(pushed(given_, wholes, logs), tasks, most)) == wanted(wholes)


@given(st.lists(filters(UNDERSTOOD), max_size=4), ranges())
def test_of_topic_partition_and_offset_only_rows_that_hold_are_read(
    given_: list[Any], wholes: list[OffsetRange]
) -> None:
    """Unless they are in too many parts, or a filter is negated twice, which Spark simplifies."""
    given_ = [one for one in given_ if not (isinstance(one, source.Not) and isinstance(one.child, source.Not))]
    logs = [[0] * LOG] * 3
    for whole in wholes:
        wanted = [row for row in rows([whole], logs) if all(holds(one, row) is True for one in given_)]
        parts = sum(1 for n, row in enumerate(wanted) if not n or row.offset != wanted[n - 1].offset + 1)
        read = pushed(given_, [whole], logs)
        if parts <= MAX_RANGES:
            assert (rows(read, logs), len(read)) == (wanted, parts)
        else:
            assert [(one.start, one.end) for one in read] == [(wanted[0].offset, wanted[-1].offset + 1)]


def test_a_filter_of_an_unknown_kind_excludes_nothing() -> None:
    """Whatever its attributes are: a later release of PySpark may have it."""

    class Sampled(NamedTuple):
        attribute: tuple[str, ...]
        value: Any

    whole = OffsetRange("t", bytes(16), 0, 0, 9)
    for column in ("topic", "partition", "offset", "timestamp"):
        for value in (None, 5, "t", at(5), (5,)):
            one = Sampled((column,), value)
            for made in (one, source.Not(one)):
                assert pushed([made], [whole], [[0] * LOG]) == [whole]


def test_long_lists_are_combined() -> None:
    """Each of 5,000 numbers with each of 5,000 others would take gigabytes."""
    even = source.In(("offset",), tuple(range(0, 10_000, 2)))
    thirds = source.Not(source.In(("offset",), tuple(range(0, 10_000, 3))))
    wanted = [number for number in range(0, 10_000, 2) if number % 3]
    assert parse_filters([even, thirds]).offsets == tuple((number, number) for number in wanted)
    wholes = [OffsetRange("t", bytes(16), number, number, number + 30) for number in range(2000)]
    left = parse_filters([even, thirds]).narrow(wholes)
    assert [one.start for one in left if one.partition == 1000] == [n for n in range(1000, 1030, 2) if n % 3]
