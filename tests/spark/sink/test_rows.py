"""Rows of Spark as tables of the producer."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.errors import ConfigurationError, InvalidRecordError
from aiokproto.spark.sink.rows import ROWS, TopicRows, by_topic, check_schema, from_rows

HEADERS = "array<struct<key:string,value:binary>>"
ALL = [("key", "string"), ("value", "binary"), ("headers", HEADERS), ("topic", "string"), ("partition", "int")]


def problem(columns: list[tuple[str, str]], topic: str | None = None) -> str:
    with pytest.raises(ConfigurationError) as caught:
        check_schema(columns, topic)
    return str(caught.value)


def test_the_columns_of_a_record() -> None:
    check_schema(ALL, None)
    check_schema([("value", "string")], "flights")
    check_schema([*ALL, ("offset", "bigint"), ("timestamp", "timestamp"), ("offset", "string")], None)


def test_wrong_columns() -> None:
    assert problem([("key", "string")], "t").startswith("schema: the column value is required")
    assert problem([("Value", "string")], "t") == "schema: the column value is required; did you mean 'Value'?"
    assert "the column topic is required, or the option topic" in problem([("value", "string")])
    assert problem([("value", "int")], "t") == (
        "schema: column value is int: cast it to binary or string, or set the option value.format"
    )
    with pytest.raises(ConfigurationError, match=r"key\.format has no effect: there is no column key"):
        check_schema([("value", "string")], "t", ["key"])
    check_schema([("value", "struct<a:int>")], "t", ["value"])
    assert problem([*ALL[:4], ("partition", "bigint")]) == "schema: column partition is bigint: cast it to int"
    assert problem([("value", "string"), ("value", "string")], "t") == "schema: column value is there 2 times"
    assert f"cast it to {HEADERS}" in problem([("value", "string"), ("headers", "map<string,binary>")], "t")


def batch(**columns: Any) -> pa.RecordBatch:
    return pa.record_batch(list(columns.values()), names=list(columns))


def test_rows_of_one_topic_are_not_copied() -> None:
    values = pa.array([b"a", b"b"], pa.binary())
    (found,) = by_topic(batch(value=values, offset=pa.array([1, 2]), topic=pa.array(["x", "x"])), None, 5)
    assert (found.topic, list(found.numbers), found.table.schema.names) == ("x", [5, 6], ["value"])
    assert found.table.column(0).buffers()[2].address == values.buffers()[2].address


def test_the_option_beats_the_column() -> None:
    (found,) = by_topic(batch(value=pa.array(["a", "b"]), topic=pa.array([None, "x"])), "t", 0)
    assert (found.topic, found.table.schema.names, list(found.numbers)) == ("t", ["value"], [0, 1])


def test_a_row_without_a_topic_is_named() -> None:
    rows = batch(value=pa.array(["a", "b", "c"]), topic=pa.array(["x", "x", None]))
    with pytest.raises(InvalidRecordError, match="row 42: the topic is null; the option topic would name one"):
        list(by_topic(rows, None, 40))


def test_a_partition_that_the_topic_lacks_is_named() -> None:
    def check(*partitions: int | None) -> None:
        table = batch(value=pa.array(["v"] * len(partitions)), partition=pa.array(partitions, pa.int32()))
        TopicRows("t", table, range(10, 10 + len(partitions))).check_partitions(3)

    check(0, None, 2)
    with pytest.raises(InvalidRecordError, match="row 11: partition 3 does not exist: topic t has partitions 0 to 2"):
        check(None, 3, 4)
    with pytest.raises(InvalidRecordError, match="row 10: partition -1 does not exist"):
        check(-1)


def test_bytes_of_keys_and_values() -> None:
    rows = batch(value=pa.array([b"abc", None]), key=pa.array(["ä", "b"]), partition=pa.array([1, 2], pa.int32()))
    assert TopicRows("t", rows, range(2)).size == 6
    assert TopicRows("t", batch(value=pa.array([None], pa.binary())), range(1)).size == 0


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=30), st.integers(0, 1000), st.integers(0, 5))
def test_each_row_goes_to_its_topic_in_order(topics: list[str], first: int, cut: int) -> None:
    rows = batch(topic=pa.array(topics), value=pa.array([str(first + n) for n in range(len(topics))])).slice(cut)
    found = list(by_topic(rows, None, first + cut))
    assert {one.topic: one.table.column("value").to_pylist() for one in found} == {
        topic: [str(first + n) for n, name in enumerate(topics) if name == topic and n >= cut]
        for topic in set(topics[cut:])
    }
    for one in found:
        assert [str(number) for number in one.numbers] == one.table.column("value").to_pylist()


def test_python_rows_become_the_same_batches() -> None:
    rows = [
        ("k", bytearray(b"v"), [("h", bytearray(b"1")), ("h", None)], "t", 1, 5),
        (None, None, None, "t", None, 6),
    ]
    first, second, rest = from_rows(rows * ROWS + rows[:1], [*ALL, ("offset", "bigint")])
    assert (len(first), len(second), len(rest)) == (ROWS, ROWS, 1)
    assert first.slice(0, 2).to_pylist() == [
        {"key": "k", "value": b"v", "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}]}
        | {"topic": "t", "partition": 1},
        {"key": None, "value": None, "headers": None, "topic": "t", "partition": None},
    ]
    assert list(from_rows([], ALL)) == []
