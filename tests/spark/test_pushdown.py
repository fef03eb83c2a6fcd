"""Filters of a query: the offsets that they leave to read, and that no row is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.records import BatchRecord
from aiokproto.spark.offsets import OffsetRange
from aiokproto.spark.planning import list_offsets, plan_now
from aiokproto.spark.pushdown import ALL, MAX_RANGES, NONE, Conditions, Numbers, parse_filters
from tests.spark.kafka import Kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

source = pytest.importorskip("pyspark.sql.datasource")
if not hasattr(source, "EqualTo"):
    pytest.skip("PySpark has filters from 4.1 on", allow_module_level=True)

LEAST, MOST = ALL[0]
SETTING = "spark.sql.python.filterPushdown.enabled"


def offset(kind: str, *value: Any) -> Any:
    return getattr(source, kind)(("offset",), *value)


def no(one: Any) -> Any:
    return source.Not(one)


def at(milliseconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=milliseconds)


NUMBERS: Sequence[tuple[Any, Numbers]] = [
    (offset("EqualTo", 5), ((5, 5),)),
    (offset("EqualTo", None), NONE),
    (offset("EqualNullSafe", 5), ((5, 5),)),
    (offset("EqualNullSafe", None), NONE),
    (offset("GreaterThan", 5), ((6, MOST),)),
    (offset("GreaterThan", MOST), NONE),
    (offset("GreaterThanOrEqual", 5), ((5, MOST),)),
    (offset("LessThan", 5), ((LEAST, 4),)),
    (offset("LessThan", LEAST), NONE),
    (offset("LessThanOrEqual", 5), ((LEAST, 5),)),
    (offset("In", (7, 5, 6, 9, 9)), ((5, 7), (9, 9))),
    (offset("In", (5, None)), ((5, 5),)),
    (offset("In", ()), NONE),
    (offset("IsNull"), NONE),
    (offset("IsNotNull"), ALL),
    (no(offset("IsNull")), ALL),
    (no(offset("EqualTo", 5)), ((LEAST, 4), (6, MOST))),
    (no(offset("EqualTo", None)), NONE),
    (no(offset("EqualNullSafe", None)), ALL),
    (no(offset("In", (5, 7))), ((LEAST, 4), (6, 6), (8, MOST))),
    (no(offset("In", (5, None))), NONE),
    (no(offset("In", ())), ALL),
    # Spark checks filters that aren't understood here.
    (offset("EqualTo", 5.0), ALL),
    (offset("EqualTo", True), ALL),
    (offset("In", (5, "6")), ALL),
    (no(offset("LessThan", "a")), ALL),
    (offset("StringContains", "a"), ALL),
    (source.EqualTo(("offset", "high"), 5), ALL),
    (source.EqualTo(("key",), b"k"), ALL),
]

TOPICS: Sequence[tuple[Any, bool]] = [
    (source.EqualTo(("topic",), "flights"), True),
    (source.EqualTo(("topic",), "Flights"), False),
    (source.EqualTo(("topic",), None), False),
    (source.EqualNullSafe(("topic",), None), False),
    (source.In(("topic",), ("a", "flights")), True),
    (source.In(("topic",), ("a", None)), False),
    (source.StringStartsWith(("topic",), "fl"), True),
    (source.StringEndsWith(("topic",), "fl"), False),
    (source.StringContains(("topic",), "igh"), True),
    (source.IsNull(("topic",)), False),
    (source.IsNotNull(("topic",)), True),
    (no(source.EqualTo(("topic",), "flights")), False),
    (no(source.EqualTo(("topic",), None)), False),
    (no(source.In(("topic",), ("a", None))), False),
    (no(source.In(("topic",), ("a",))), True),
    (no(source.StringStartsWith(("topic",), "fl")), False),
    (source.EqualTo(("topic",), 5), True),
    (no(source.EqualTo(("topic",), 5)), True),
    (source.GreaterThan(("topic",), "z"), True),
]

TIMES: Sequence[tuple[Any, int | None]] = [
    (source.GreaterThanOrEqual(("timestamp",), at(5000)), 5000),
    (source.GreaterThanOrEqual(("timestamp",), at(5000.001)), 5001),
    (source.GreaterThan(("timestamp",), at(5000)), 5001),
    (source.GreaterThan(("timestamp",), at(5000.001)), 5001),
    (source.EqualTo(("timestamp",), at(5000)), 5000),
    (source.In(("timestamp",), (at(7000), None, at(6000))), 6000),
    (source.In(("timestamp",), (at(7000), 1)), None),
    (source.GreaterThanOrEqual(("timestamp",), at(-5000)), None),
    (source.GreaterThanOrEqual(("timestamp",), at(5000).replace(tzinfo=None)), None),
    (source.LessThan(("timestamp",), at(5000)), None),
    (source.IsNotNull(("timestamp",)), None),
    (no(source.GreaterThan(("timestamp",), at(5000))), None),
    (no(source.LessThan(("timestamp",), at(5000))), None),
]


@pytest.mark.parametrize(("one", "left"), NUMBERS, ids=str)
def test_what_a_filter_leaves_of_the_offsets(one: Any, left: Numbers) -> None:
    assert parse_filters([one]).offsets == left


@pytest.mark.parametrize(("one", "read"), TOPICS, ids=str)
def test_which_topics_are_read(one: Any, read: bool) -> None:
    whole = OffsetRange("flights", bytes(16), 0, 0, 9)
    assert parse_filters([one]).narrow([whole]) == ([whole] if read else [])


@pytest.mark.parametrize(("one", "since"), TIMES, ids=str)
def test_the_earliest_time_that_a_filter_leaves(one: Any, since: int | None) -> None:
    assert parse_filters([one]).since == since


def test_all_filters_hold() -> None:
    found = parse_filters(
        [
            source.IsNotNull(("offset",)),
            offset("GreaterThan", 5),
            offset("LessThanOrEqual", 9),
            no(offset("EqualTo", 7)),
            source.In(("partition",), (0, 2)),
            source.GreaterThan(("timestamp",), at(1)),
            source.GreaterThan(("timestamp",), at(4)),
        ]
    )
    assert found == Conditions((), ((0, 0), (2, 2)), ((6, 6), (8, 9)), 5)
    ranges = [OffsetRange("t", bytes(16), number, 0, 9) for number in range(3)]
    assert [(one.partition, one.start, one.end) for one in found.narrow(ranges)] == [
        (0, 6, 7),
        (0, 8, 9),
        (2, 6, 7),
        (2, 8, 9),
    ]


def test_too_many_parts_are_read_as_one() -> None:
    wanted = tuple(range(2, 4 * MAX_RANGES, 2))
    (one,) = parse_filters([offset("In", wanted)]).narrow([OffsetRange("t", bytes(16), 0, 0, 1000)])
    assert (one.start, one.end) == (2, 4 * MAX_RANGES - 1)


TESTS: dict[str, Callable[[Any, Any], bool | None]] = {
    "EqualTo": lambda found, value: None if value is None else found == value,
    "EqualNullSafe": lambda found, value: found == value,
    "GreaterThan": lambda found, value: None if value is None else found > value,
    "GreaterThanOrEqual": lambda found, value: None if value is None else found >= value,
    "LessThan": lambda found, value: None if value is None else found < value,
    "LessThanOrEqual": lambda found, value: None if value is None else found <= value,
    "In": lambda found, value: True if found in value else None if None in value else False,
}
Row = tuple[str, int, int, datetime]


def holds(one: Any, row: Row) -> bool | None:
    """SQL's result; None is neither true nor false."""
    if isinstance(one, source.Not):
        found = holds(one.child, row)
        return None if found is None else not found
    value = row[("topic", "partition", "offset", "timestamp").index(one.attribute[0])]
    if isinstance(one, (source.IsNull, source.IsNotNull)):
        return isinstance(one, source.IsNotNull)
    return TESTS[type(one).__name__](value, one.value)


@st.composite
def filters(draw: st.DrawFn) -> Any:
    column, values = draw(
        st.sampled_from(
            [
                ("topic", st.sampled_from(["a", "b", "c"])),
                ("partition", st.integers(-1, 3)),
                ("offset", st.integers(-1, 25)),
                ("timestamp", st.integers(0, 40).map(lambda half: at(half / 2))),
            ]
        )
    )
    kind = draw(st.sampled_from([*TESTS, "IsNull", "IsNotNull"]))
    literal = values | st.none()
    if kind == "In":
        made = source.In((column,), tuple(draw(st.lists(literal, max_size=20))))
    elif kind in ("IsNull", "IsNotNull"):
        made = getattr(source, kind)((column,))
    else:
        made = getattr(source, kind)((column,), draw(literal))
    return source.Not(made) if draw(st.booleans()) else made


@given(st.lists(filters(), max_size=4), st.lists(st.integers(0, 20), min_size=20, max_size=20))
def test_no_row_is_lost_or_read_twice(given_: list[Any], times: list[int]) -> None:
    """Timestamps are in any order. Reading less and then filtering gives the same rows as filtering all."""
    wholes = [OffsetRange(topic, bytes(16), partition, 0, 20) for topic in "ab" for partition in (0, 1)]
    conditions = parse_filters(given_)
    ranges = conditions.narrow(wholes)
    if conditions.since is not None:
        since = conditions.since
        first = next((number for number, time in enumerate(times) if time >= since), None)
        ranges = conditions.starting_at(ranges, {one.topic_partition: first for one in wholes})

    def wanted(rows: list[OffsetRange]) -> list[Row]:
        found = [(one.topic, one.partition, n, at(times[n])) for one in rows for n in range(one.start, one.end)]
        return sorted(row for row in found if all(holds(one, row) for one in given_))

    assert wanted(ranges) == wanted(wholes)
    exact = [one for one in given_ if one_column(one) != "timestamp"]
    if conditions.since is None and len(conditions.offsets) <= MAX_RANGES:
        read = [(one.topic, one.partition, n, at(times[n])) for one in ranges for n in range(one.start, one.end)]
        assert all(holds(one, row) for row in read for one in exact if orders_numbers(one))


def one_column(one: Any) -> str:
    found = one.child if isinstance(one, source.Not) else one
    return str(found.attribute[0])


def orders_numbers(one: Any) -> bool:
    """Topics are compared for equality only."""
    found = one.child if isinstance(one, source.Not) else one
    return one_column(one) != "topic" or "Than" not in type(found).__name__


def records(times: Sequence[int]) -> list[BatchRecord]:
    return [BatchRecord(number, time, None, b"v") for number, time in enumerate(times)]


@pytest.fixture
def filled(kafka: Kafka, topic: str) -> str:
    """A topic whose timestamps do not ascend, and whose third partition is empty."""
    kafka.create_topic(topic, 3)
    kafka.produce(topic, 0, records([1000, 3000, 2000, 5000, 4000]))
    kafka.produce(topic, 1, records([1000, 1000]))
    return topic


def planned(kafka: Kafka, filled: str, *given_: Any, **options: str) -> list[tuple[int, int, int]]:
    parsed = kafka.read_options(subscribe=filled, **options)
    ranges = plan_now(parsed, conditions=parse_filters(given_)).ranges
    return [(one.partition, one.start, one.end) for one in ranges]


def test_a_time_is_where_its_first_record_is(kafka: Kafka, filled: str) -> None:
    def since(time: int) -> Any:
        return source.GreaterThanOrEqual(("timestamp",), at(time))

    assert planned(kafka, filled, since(500)) == [(0, 0, 5), (1, 0, 2)]
    assert planned(kafka, filled, since(2000)) == [(0, 1, 5)]
    assert planned(kafka, filled, since(3500), offset("LessThan", 4)) == [(0, 3, 4)]
    assert planned(kafka, filled, since(3500), offset("LessThan", 3)) == []
    assert planned(kafka, filled, since(9000)) == []


@pytest.mark.parametrize("code", [ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, ErrorCode.TOPIC_AUTHORIZATION_FAILED])
def test_a_topic_in_a_format_without_timestamps_is_read_whole(
    kafka: Kafka, filled: str, monkeypatch: pytest.MonkeyPatch, code: ErrorCode
) -> None:
    """As without the filter, which Spark applies."""

    async def without_times(cluster: Any, timestamps: Any, options: Any) -> Any:
        if any(time >= 0 for time in timestamps.values()):
            raise BrokerError(code, "ListOffsets")
        return await list_offsets(cluster, timestamps, options)

    monkeypatch.setattr("aiokproto.spark.planning.list_offsets", without_times)
    since = source.GreaterThanOrEqual(("timestamp",), at(2000))
    if code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT:
        assert planned(kafka, filled, since, offset("LessThan", 4)) == [(0, 0, 4), (1, 0, 2)]
    else:
        with pytest.raises(BrokerError, match=code.name):
            planned(kafka, filled, since)


def test_filters_narrow_the_range_of_the_options(kafka: Kafka, filled: str) -> None:
    bounds = f'{{"{filled}": {{"0": 1, "1": 0, "2": 0}}}}'
    assert planned(kafka, filled, offset("LessThan", 2), startingOffsets=bounds) == [(0, 1, 2), (1, 0, 2)]
    assert planned(kafka, filled, offset("EqualTo", 0), startingOffsets=bounds) == [(1, 0, 1)]


@pytest.fixture
def pushing(spark: SparkSession) -> Iterator[SparkSession]:
    """The session, which passes filters to Python data sources."""
    before = spark.conf.get(SETTING, "false")
    spark.conf.set(SETTING, "true")
    yield spark
    spark.conf.set(SETTING, before or "false")


QUERIES = {
    "offset >= 3": 1,
    "partition = 1": 1,
    "partition IN (0, 1) AND offset IN (0, 1)": 2,
    "offset < 4 AND offset > 4": 1,
    "timestamp > TIMESTAMP '1970-01-01 00:00:03.5Z'": 1,
    "timestamp = TIMESTAMP '1970-01-01 00:00:02Z'": 1,
    "topic LIKE 'no%'": 1,
    "offset = 1 OR value IS NULL": 2,
    "value = X'76' AND offset = 1 AND key IS NULL": 2,
}


@pytest.mark.spark
@pytest.mark.parametrize("query", QUERIES)
def test_a_query_has_the_same_rows_with_pushdown(pushing: SparkSession, kafka: Kafka, filled: str, query: str) -> None:
    def rows(**options: str) -> Any:
        given_ = kafka.options(subscribe=filled, **options)
        return pushing.read.format("aiokproto").options(**given_).load().where(query)

    def found(frame: Any) -> list[tuple[Any, ...]]:
        return sorted((row["partition"], row["offset"], bytes(row["value"])) for row in frame.collect())

    pushed, plain = rows(filterPushdown="true"), rows()
    assert found(pushed) == found(plain)
    # There are two tasks without pushed filters, one for each partition with records.
    assert plain.rdd.getNumPartitions() == 2
    assert pushed.rdd.getNumPartitions() == QUERIES[query]
    assert found(rows(filterPushdown="true", minPartitions="5")) == found(plain)


@pytest.mark.spark
def test_spark_keeps_what_a_filter_has_left_of_a_data_frame(pushing: SparkSession, kafka: Kafka, filled: str) -> None:
    """What `register` warns of, and the docs. Once Spark plans each query again, all this can go."""
    given_ = kafka.options(subscribe=filled, filterPushdown="true")
    frame = pushing.read.format("aiokproto").options(**given_).load()
    left = frame.where("partition = 1").count()
    assert frame.count() == left
    assert pushing.read.format("aiokproto").options(**given_).load().count() > left


@pytest.mark.spark
def test_a_session_in_which_all_reads_are_pushed_down(
    pushing: SparkSession, kafka: Kafka, filled: str, caplog: pytest.LogCaptureFixture
) -> None:
    from aiokproto.spark import register

    pushing.conf.set(SETTING, "false")
    register(pushing, pushdown=True)
    assert "load a DataFrame for each use, also within one query" in caplog.text
    try:
        assert pushing.conf.get(SETTING) == "true"

        def tasks(**options: str) -> int:
            given_ = kafka.options(subscribe=filled, **options)
            frame = pushing.read.format("aiokproto").options(**given_).load().where("partition = 1")
            assert frame.count() == 2
            return int(frame.rdd.getNumPartitions())

        assert tasks() == 1
        assert tasks(filterPushdown="false") == 2
    finally:
        register(pushing)
