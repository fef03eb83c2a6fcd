"""JSON columns: Arrow's reader and the slow one give the same rows as Spark's ``from_json``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokproto.spark.payloads import json_format
from aiokproto.spark.payloads.ddl import parse_schema
from aiokproto.spark.payloads.json_columns import columns_reader
from aiokproto.spark.payloads.json_format import Decoded, json_decoder
from aiokproto.spark.payloads.json_values import Malformed, converter, parse
from benchmarks.spark.payloads import FORMS, PARSED, Form
from tests.spark.payloads.json_cases import ROWS, SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

KIND = parse_schema("value.schema", SCHEMA)
SIMPLE = parse_schema(
    "value.schema", "a INT, b STRING, c DOUBLE, z BOOLEAN, t TIMESTAMP, d DATE, l ARRAY<INT>, n STRUCT<x: INT>"
)

DIFFERENT = {'{"y":128}', '{"b":1.50}', "{'a':1}"}
"""Spark wraps the number, writes 1.5, and takes single quotes; the documentation has the last one."""


def decode(kind: pa.DataType, rows: list[bytes | None]) -> Decoded:
    found = json_decoder(kind)(pa.array(rows, pa.binary()))
    found.column.validate(full=True)
    assert found.column.type == kind
    return found


@pytest.mark.spark
def test_rows_are_read_as_by_spark(spark: SparkSession) -> None:
    from pyspark.sql import functions

    frame = spark.createDataFrame(list(enumerate(ROWS)), "number int, text string")
    rows = frame.select(functions.from_json("text", SCHEMA)).collect()
    theirs = [None if row[0] is None else row[0].asDict(recursive=True) for row in rows]
    ours = decode(KIND, [text.encode() for text in ROWS])
    for number, (text, their, our) in enumerate(zip(ROWS, theirs, ours.column.to_pylist(), strict=True)):
        if text in DIFFERENT:
            continue
        corrupt = their is not None and their.pop("_corrupt_record") is not None
        assert (number in ours.malformed) == corrupt, text
        if our is None or their is None:
            assert our == their, text
            continue
        del our["_corrupt_record"]
        assert repr(as_spark(our)) == repr(as_spark(their)), text


def as_spark(value: dict[str, Any]) -> dict[str, Any]:
    """One form of both: maps as sorted pairs, binary as bytes, times without the zone, which is UTC."""
    found = dict(value)
    if found["m"] is not None:
        found["m"] = sorted(found["m"].items() if isinstance(found["m"], dict) else found["m"])
    if found["x"] is not None:
        found["x"] = bytes(found["x"])
    if found["t"] is not None:
        found["t"] = found["t"].replace(tzinfo=None)
    return found


FORMS_OF_VALUES = (
    *("null", "true", "5", "0", "2147483648", "99999999999999999999", "1e2", "1.5", "-0.1", "NaN"),
    *(
        '""',
        '"x"',
        '"5"',
        '"1.5"',
        '"true"',
        '"NaN"',
        '"null"',
        '" 5"',
        '"{}"',
        '"2020-01-02T03:04:05Z"',
        '"2020-01-02"',
    ),
    *("1577934245", "-1", "-62135596801", "9223372036854", "9223372036855", "253402300800"),
    *(
        "{}",
        "[]",
        '{"k":1}',
        '{ "k" : [ 1, "x" ] }',
        '{"k":{"j":null,"i":true}}',
        '[{"k":"\\u00e9"},2]',
        '{"\\n":"\\u001f"}',
    ),
    *('{"k":"\\"\\\\\\/\\b\\f\\r\\t\x7f"}', '{"k":"\\ud83d\\ude00"}', '{"k":"\\ud83d"}', '{"":""}'),
)
"""Values. Each has the usual form of some types, and another form of all other types."""

TYPES_OF_VALUES = ("INT", "BIGINT", "DOUBLE", "BOOLEAN", "STRING", "TIMESTAMP", "TIMESTAMP_NTZ", "DATE")


UNLIKE_SPARK = {'"c4":1e2', '"c5":9223372036855'}
"""Documented: the text of a number is what was written, and one that its type cannot hold is malformed."""

FIELDS = {
    number: [field for value in FORMS_OF_VALUES if (field := f'"c{number}":{value}') not in UNLIKE_SPARK]
    for number in range(len(TYPES_OF_VALUES))
}
"""Fields of each type, with values of all forms."""

PLAIN = {"TIMESTAMP": "unix_micros({})", "TIMESTAMP_NTZ": "unix_micros(cast({} AS timestamp))", "DATE": "unix_date({})"}
"""Numbers in place of times, since Python does not have all years."""

MIXED = ", ".join(f"c{number} {kind}" for number, kind in enumerate(TYPES_OF_VALUES)) + ", _corrupt_record STRING"


def assert_as_spark(spark: SparkSession, rows: list[str]) -> None:
    from pyspark.sql import functions

    frame = spark.createDataFrame(list(enumerate(rows)), "number int, text string").coalesce(1)
    parsed = frame.select(functions.from_json("text", MIXED).alias("row"))
    fields = [PLAIN.get(kind, "{}").format(f"row.c{number}") for number, kind in enumerate(TYPES_OF_VALUES)]
    theirs = [tuple(row) for row in parsed.selectExpr("row._corrupt_record IS NOT NULL", *fields).collect()]
    found = decode(parse_schema("value.schema", MIXED), [row.encode() for row in rows])
    columns = []
    for number in range(len(TYPES_OF_VALUES)):
        column = found.column.field(number)
        numbers = {"timestamp": pa.int64(), "date32": pa.int32()}
        columns.append(column.cast(numbers.get(str(column.type).split("[")[0], column.type)).to_pylist())
    for number, (row, their, our) in enumerate(zip(rows, theirs, zip(*columns, strict=True), strict=True)):
        # Compare texts, because a NaN isn't equal to another.
        assert repr((number in found.malformed, *our)) == repr(their), row


@pytest.mark.spark
def test_values_of_each_form_are_read_as_each_type_as_by_spark(spark: SparkSession) -> None:
    assert_as_spark(spark, [f"{{{field}}}" for fields in FIELDS.values() for field in fields])


mixed = st.lists(st.sampled_from(list(FIELDS)), unique=True).flatmap(
    lambda names: st.tuples(*(st.sampled_from(FIELDS[name]) for name in names))
)


@pytest.mark.spark
@settings(max_examples=5, deadline=None)
@given(st.lists(mixed.map(lambda fields: "{" + ",".join(fields) + "}"), min_size=1, max_size=200))
def test_rows_of_values_of_any_form_are_read_as_by_spark(spark: SparkSession, rows: list[str]) -> None:
    assert_as_spark(spark, rows)


texts = (
    st.sampled_from(["", "x", 'é\n"', "NaN", "\ud83d", '{,"b":5,'])
    | st.sampled_from(
        ["2020-01-02", "2020-01-02T03", "2020-01-02T03:04:05Z", "2020-01-02 03:04:05.5+02:00", "2020-01-02T03:04:05+19"]
    )
    | st.sampled_from(["2020-01-02T03:04:05.123456789Z", "2020-01-02T03:04:05.1234567", "2020-01-02T03:04Z", "2020"])
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**34), 2**34)
    | st.sampled_from([2**63, -(2**70)])
    | st.floats(allow_nan=False, width=32)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcdltnxz"), inner, max_size=4),
    max_leaves=8,
)
lines = (
    st.none()
    | values.map(lambda value: json.dumps(value).encode())
    | st.dictionaries(st.sampled_from("abcdltnxz"), values, max_size=5).map(lambda value: json.dumps(value).encode())
    | st.sampled_from(
        [b"", b" ", b"{}", b"{", b"}", b'{"a":1}{"a":2}', b'{"a":\n1}', b'{"b":"x}', b'","a":1}', b"\xff"]
    )
    | st.sampled_from([b'{"b":1.50}', b'{ "b" :\t-0 }', b'{"b":01}', b'{"b":1.5e}', b'{"b":5-3}', b'{"b":{"b":5}}'])
    | st.sampled_from(
        [b'{"a":1,"b":"{,"b":5}', b'{"k\\"b":5}', b'{"b":truefalse}', b'{"b":false,"b":1}', b'{"n":{"y":1}}']
    )
    | st.sampled_from([b'{"b":"x"}\r\n', b'\n{"a":1}\t', b'{"a":1}\n{"a":2}\n', b'{"b":"x\n"}', b'{"b":5,\n"a":1}\x0b'])
    | st.sampled_from([b'{"b":"\xff"}', b'{"b":"\xed\xa0\x80"}', b'{"\xff":1}', b'\xef\xbb\xbf{"a":1}', b'{"b":"\0"}'])
)


def one_by_one(kind: pa.DataType, rows: Sequence[bytes | None]) -> Decoded:
    """What each row and each value is by itself."""
    convert = converter(kind)
    found: list[Any] = []
    malformed = {}
    for number, row in enumerate(rows):
        try:
            found.append(None if row is None else convert(parse(row)))
        except (ValueError, RecursionError, Malformed) as error:
            found.append(getattr(error, "partial", None) or {})
            malformed[number] = "it is no JSON of the schema"
    return Decoded(pa.array(found, kind), malformed)


def assert_same(found: Decoded, expected: Decoded) -> None:
    # Compare texts, because a NaN isn't equal to another.
    assert repr(found.column.to_pylist()) == repr(expected.column.to_pylist())
    assert found.malformed == expected.malformed


@settings(max_examples=300)
@given(st.lists(lines, max_size=40))
def test_all_ways_of_reading_agree(rows: list[bytes | None]) -> None:
    expected = one_by_one(SIMPLE, rows)
    assert_same(decode(SIMPLE, rows), expected)
    present = [row for row in rows if row is not None]
    column, wrong = columns_reader(SIMPLE)(present)
    assert_same(
        Decoded(column, dict.fromkeys(sorted(wrong), "it is no JSON of the schema")), one_by_one(SIMPLE, present)
    )


@dataclass
class Slow:
    """How many rows Python parsed, and how often Arrow's reader was tried."""

    rows: int = 0
    trials: int = 0


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    counted = Slow()
    fast = json_format._fast

    def counting(kind: pa.DataType) -> Any:
        read = columns_reader(kind)

        def read_rows(rows: list[bytes]) -> Any:
            counted.rows += len(rows)
            return read(rows)

        return read_rows

    def trying(*args: Any) -> Any:
        counted.trials += 1
        return fast(*args)

    monkeypatch.setattr(json_format, "columns_reader", counting)
    monkeypatch.setattr(json_format, "_fast", trying)
    return counted


@pytest.mark.parametrize("form", FORMS, ids=lambda form: str(form.name).replace(" ", "-"))
def test_usual_forms_are_read_many_rows_at_once(form: Form, slow: Slow) -> None:
    kind = parse_schema("value.schema", form.schema)
    rows = form.rows(40)
    found = decode(kind, list(rows))
    assert slow.rows == 0
    assert not found.malformed
    assert_same(found, one_by_one(kind, list(rows)))


@pytest.mark.parametrize("form", PARSED, ids=lambda form: str(form.name).replace(" ", "-"))
def test_other_forms_are_parsed_once(form: Form, slow: Slow) -> None:
    kind = parse_schema("value.schema", form.schema)
    count = 2 * json_format.BLOCK + 1
    rows = form.rows(count)
    found = decode(kind, list(rows))
    assert slow.rows <= count
    assert slow.trials <= 5, "the batch, as it is and rewritten, and its blocks"
    assert_same(found, one_by_one(kind, list(rows)))


def test_one_malformed_row_does_not_slow_down_the_others(slow: Slow) -> None:
    rows: list[bytes | None] = [b'{"a":%d,"t":"2020-01-02T03:04:05Z"}' % number for number in range(5000)]
    rows[1234] = b"nope"
    found = decode(SIMPLE, rows)
    assert [*found.malformed] == [1234]
    assert slow.rows <= json_format.BLOCK
    assert [row["a"] for row in found.column.to_pylist() if row["a"] is not None] == [
        number for number in range(5000) if number != 1234
    ]


def test_no_rows_and_only_nulls() -> None:
    assert decode(KIND, []).column.to_pylist() == []
    assert decode(KIND, [None, None]).column.to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        ("t TIMESTAMP", '{"t":"2020-01-02 03:04:05 Europe/Berlin"}', "2020-01-02 02:04:05+00:00"),
        ("t TIMESTAMP", '{"t":"2020-01-02 03:04:05 +01:30"}', "2020-01-02 01:34:05+00:00"),
        ("t TIMESTAMP", '{"t":"2020-01-02 03:04:05 ../../etc/passwd"}', "None"),
        ("t TIMESTAMP", '{"t":"2020-01-02 03:04:05 +24:00"}', "None"),
        ("t DECIMAL(38,10)", '{"t":1e-400}', "0E-10"),
        ("t DECIMAL(5,2)", '{"t":1e999999999}', "None"),
        ("t INT", '{"t":' + "9" * 100_000 + "}", "None"),
        ("t TIMESTAMP", '{"t":' + "9" * 100_000 + "}", "None"),
        ("t TIMESTAMP", '{"t":-9223372036855}', "None"),
    ],
)
def test_forms_and_limits_of_single_values(schema: str, text: str, value: str) -> None:
    (found,) = decode(parse_schema("value.schema", schema), [text.encode()]).column.to_pylist()
    assert str(found["t"]) == value


def test_deep_json_is_malformed() -> None:
    assert [*decode(SIMPLE, [b"[" * 100_000, b'{"a":' * 100_000]).malformed] == [0, 1]


@pytest.mark.parametrize(
    ("schema", "text", "number"),
    [
        ("t DATE", "0000-01-01", -719528),
        ("t DATE", "-0001-03-01", -719834),
        ("t DATE", "10000-01-01", 2932897),
        ("t DATE", "5881580-07-11", 2**31 - 1),
        ("t DATE", "5881580-07-12", None),
        ("t DATE", "10001-02-29", None),
        ("t TIMESTAMP", "0000-01-01", -719528 * 86_400_000_000),
        ("t TIMESTAMP", "+10000-01-01T01:00:00 Europe/Berlin", 2932897 * 86_400_000_000),
        ("t TIMESTAMP", "294247-01-10T04:00:54.775807Z", 2**63 - 1),
        ("t TIMESTAMP", "294247-01-10T04:00:54.775808Z", None),
        ("t TIMESTAMP_NTZ", "-290308-12-21T19:59:05.224192", -(2**63)),
    ],
)
def test_years_that_python_does_not_have(schema: str, text: str, number: int | None) -> None:
    found = decode(parse_schema("value.schema", schema), [b'{"t":"%s"}' % text.encode()])
    values = found.column.field(0)
    assert values.cast(pa.int32() if values.type == pa.date32() else pa.int64()).to_pylist() == [number]
    assert bool(found.malformed) == (number is None)


def test_text_that_is_not_utf8_is_malformed_in_the_fast_way_too() -> None:
    rows: list[bytes | None] = [b'{"b":"x"}'] * 20
    found = decode(parse_schema("value.schema", "b STRING"), [*rows, b'{"b":"\xff"}'])
    assert [*found.malformed] == [20]
    assert found.column.to_pylist() == [{"b": "x"}] * 20 + [{"b": None}]
