"""Schemas as text."""

from __future__ import annotations

import pyarrow as pa
import pytest

from aiokproto.errors import ConfigurationError
from aiokproto.spark.payloads.ddl import list_of, map_of, parse_schema

UTC = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("a INT", [("a", pa.int32())]),
        (" a int , b String NOT NULL COMMENT 'it''s'", [("a", pa.int32()), ("b", pa.string())]),
        ('`a b``c` bigint COMMENT "x, y"', [("a b`c", pa.int64())]),
        ("struct<a: tinyint, b: smallint>", [("a", pa.int8()), ("b", pa.int16())]),
        ("a array<array<double>>", [("a", list_of(list_of(pa.float64())))]),
        ("a map<string,struct<b float>>", [("a", map_of(pa.string(), pa.struct([("b", pa.float32())])))]),
        (
            "a decimal, b decimal(9), c DEC(9, 3)",
            [(n, pa.decimal128(*p)) for n, p in zip("abc", [(10, 0), (9, 0), (9, 3)], strict=True)],
        ),
        ("a date, b timestamp, c timestamp_ntz", [("a", pa.date32()), ("b", UTC), ("c", pa.timestamp("us"))]),
        (
            "a varchar(3), b char(2), c binary, d boolean",
            [("a", pa.string()), ("b", pa.string()), ("c", pa.binary()), ("d", pa.bool_())],
        ),
        (
            (
                '{"type":"struct","fields":[{"name":"a","type":"long","nullable":true,"metadata":{}},{"name":"b","type":'
                '{"type":"array","elementType":{"type":"map","keyType":"string","valueType":"decimal(4,1)",'
                '"valueContainsNull":true},"containsNull":true},"nullable":true,"metadata":{}}]}'
            ),
            [("a", pa.int64()), ("b", list_of(map_of(pa.string(), pa.decimal128(4, 1))))],
        ),
    ],
)
def test_ddl_and_json_of_a_struct(text: str, fields: list[tuple[str, pa.DataType]]) -> None:
    assert parse_schema("value.schema", text) == pa.struct(fields)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "a struct without fields"),
        ("a", "expected a type, got 'the end'"),
        ("a foo", "type 'foo': expected boolean, tinyint"),
        ("a int,", "expected the name of a field"),
        ("a int b string", "expected ','"),
        ("a array<int", "expected '>', got 'the end'"),
        ("a array<int>>", "expected ',', got '>'"),
        ("a int, A string", "field 'A' is there twice"),
        ("a decimal(39,0)", "Spark has 1 to 38 digits"),
        ("a decimal(3,4)", "at most as many after the point"),
        ("a decimal(", "a parenthesis does not end"),
        ("`a int", "a quote does not end"),
        ("a int comment b", "expected a quoted text after COMMENT"),
        ("a int not b", "expected 'null'"),
        ("array<int>", "expected the fields of a struct"),
        ("{}", "'type' is missing"),
        ('{"type":"udt"}', "type 'udt'"),
        ("{", "Expecting property name"),
        ("a " + "array<" * 60 + "int" + ">" * 60, "more than 50 types within each other"),
    ],
)
def test_an_invalid_schema_is_named(text: str, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_schema("value.schema", text)
    assert str(caught.value).startswith("value.schema")
    assert problem in str(caught.value)
