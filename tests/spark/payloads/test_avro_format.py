"""Avro columns: types, framings, evolution, and what is malformed."""

from __future__ import annotations

import io
import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from aiokproto.errors import ConfigurationError
from aiokproto.spark.payloads.avro_format import AvroDecoder
from aiokproto.spark.payloads.avro_types import parse_avro
from aiokproto.spark.payloads.json_format import Decoded
from aiokproto.spark.payloads.registry import AvroSchema, RegistryError, UnknownSchemaError

NOON = datetime(2020, 1, 2, 12, 0, 0, 678_000, tzinfo=timezone.utc)
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MICROS = (NOON - EPOCH) // timedelta(microseconds=1)


def encoded(schema: Any, value: Any, head: bytes = b"") -> bytes:
    target = io.BytesIO()
    fastavro.schemaless_writer(target, fastavro.parse_schema(schema), value)
    return head + target.getvalue()


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Flight", "fields": [{"name": name, "type": kind} for name, kind in fields]}


def decoder(schema: Any, framing: str = "none", writers: dict[int, Any] | None = None) -> AvroDecoder:
    def writer_schema(number: int) -> AvroSchema:
        if writers is None or number not in writers:
            raise UnknownSchemaError(f"GET /schemas/ids/{number}: not found")
        return AvroSchema(json.dumps(writers[number]))

    return AvroDecoder("value.schema", AvroSchema(json.dumps(schema)), framing, writer_schema)


def decode(using: AvroDecoder, *rows: bytes | None) -> Decoded:
    found = using.decode(pa.array(rows, pa.binary()))
    found.column.validate(full=True)
    assert found.column.type == using.types.column
    return found


def logical(kind: str, what: str, /, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": what, **more}


@pytest.mark.parametrize(
    ("schema", "written", "kind", "value"),
    [
        ("boolean", True, "bool", True),
        ("int", -5, "int32", -5),
        ("long", 2**40, "int64", 2**40),
        ("float", 1.5, "float", 1.5),
        ("double", 0.1, "double", 0.1),
        ("string", "é", "string", "é"),
        ("bytes", b"\xff", "binary", b"\xff"),
        ({"type": "fixed", "name": "F", "size": 2}, b"ab", "binary", b"ab"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "string", "B"),
        ({"type": "array", "items": "int"}, [1, 2], "list<element: int32>", [1, 2]),
        ({"type": "map", "values": "int"}, {"k": 1}, "map<string, int32>", [("k", 1)]),
        (["null", "int"], None, "int32", None),
        (["int", "null"], 3, "int32", 3),
        (["int", "long"], 3, "int64", 3),
        (["null", "float", "double"], 0.5, "double", 0.5),
        (logical("int", "date"), date(2020, 1, 2), "date32[day]", date(2020, 1, 2)),
        (logical("long", "timestamp-millis"), NOON, "timestamp[us, tz=UTC]", NOON),
        (logical("long", "timestamp-micros"), NOON, "timestamp[us, tz=UTC]", NOON),
        (
            logical("long", "local-timestamp-millis"),
            NOON.replace(tzinfo=None),
            "timestamp[us]",
            NOON.replace(tzinfo=None),
        ),
        (
            logical("long", "local-timestamp-micros"),
            NOON.replace(tzinfo=None),
            "timestamp[us]",
            NOON.replace(tzinfo=None),
        ),
        (logical("int", "time-millis"), 5, "int32", 5),
        (logical("long", "time-micros"), 5, "int64", 5),
        (logical("long", "timestamp-nanos"), 5, "int64", 5),
        (logical("string", "uuid"), "abc", "string", "abc"),
        (logical("bytes", "decimal", precision=6, scale=2), Decimal("-12.34"), "decimal128(6, 2)", Decimal("-12.34")),
        (
            logical("fixed", "decimal", name="D", size=16, precision=38, scale=0),
            Decimal(10) ** 37,
            "decimal128(38, 0)",
            Decimal(10) ** 37,
        ),
    ],
)
def test_types_match_sparks(schema: Any, written: Any, kind: str, value: Any) -> None:
    for top in (schema, record(("f", schema))):
        using = decoder(top)
        found = decode(using, encoded(top, written if top is schema else {"f": written}))
        expected = kind if top is schema else f"struct<f: {kind}>"
        assert str(using.types.column) == expected
        assert found.column.to_pylist() == [value if top is schema else {"f": value}]


def test_times_after_the_year_9999() -> None:
    schema = logical("long", "timestamp-micros")
    far = 300_000 * 365 * 86_400 * 1_000_000 // 2
    found = decode(decoder(schema), encoded("long", far))
    assert found.column.cast(pa.int64()).to_pylist() == [far]


def test_a_union_of_several_types_is_a_struct_of_its_members() -> None:
    inner = {
        "type": "record",
        "name": "In",
        "fields": [{"name": "t", "type": ["null", logical("long", "timestamp-micros")]}],
    }
    other = {"type": "record", "name": "Other", "fields": [{"name": "x", "type": "int"}]}
    enum = {"type": "enum", "name": "E", "symbols": ["A"]}
    schema = record(
        ("u", ["null", "string", "int", inner, other, enum]),
        ("v", ["null", "In"]),
        ("w", {"type": "array", "items": ["null", "E"]}),
    )
    values = [None, "s", 5, ("In", {"t": NOON}), ("Other", {"x": 1}), ("E", "A")]
    rows = [encoded(schema, {"u": value, "v": {"t": NOON}, "w": [None, ("E", "A")]}) for value in values]
    found = decode(decoder(schema), *rows).column.to_pylist()
    members = [
        value and {name: one for name, one in value.items() if one is not None} for value in (row["u"] for row in found)
    ]
    assert members == [
        None,
        {"member0": "s"},
        {"member1": 5},
        {"member2": {"t": NOON}},
        {"member3": {"x": 1}},
        {"member4": "A"},
    ]
    assert [row["v"] for row in found] == [{"t": NOON}] * 6
    assert [row["w"] for row in found] == [[None, "A"]] * 6


def test_each_record_is_read_with_its_writers_schema() -> None:
    one = record(("a", "int"), ("gone", "string"))
    two = {**one, "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": ["null", "string"], "default": None}]}
    reader = {**two, "fields": [*two["fields"], {"name": "c", "type": "string", "default": "new"}]}
    using = decoder(reader, "confluent", {1: one, 2: two, 3: reader})
    rows = [
        encoded(one, {"a": 1, "gone": "x"}, b"\0\0\0\0\1"),
        encoded(two, {"a": 2**40, "b": "y"}, b"\0\0\0\0\2"),
        None,
        encoded(reader, {"a": 3, "b": None, "c": "z"}, b"\0\0\0\0\3"),
    ]
    assert decode(using, *rows).column.to_pylist() == [
        {"a": 1, "b": None, "c": "new"},
        {"a": 2**40, "b": "y", "c": "new"},
        None,
        {"a": 3, "b": None, "c": "z"},
    ]


def test_malformed_rows_are_null_and_the_reason_is_given() -> None:
    schema = record(("a", "string"))
    incompatible = record(("a", "int"))
    using = decoder(schema, "confluent", {1: schema, 2: incompatible})
    good = encoded(schema, {"a": "x"}, b"\0\0\0\0\1")
    rows = [good, b"{}", b"\0\0\0", b"\0\0\0\0\x09" + good[5:], good + b"!", good[:-1], b"\0\0\0\0\2\x02", b""]
    found = decode(using, *rows)
    assert found.column.to_pylist() == [{"a": "x"}, *[None] * 7]
    magic = "it does not begin with a magic byte 0 and the id of a schema"
    assert {row: why.partition(":")[0] for row, why in found.malformed.items()} == {
        1: magic,
        2: magic,
        3: "schema 9 is unknown",
        4: "1 bytes follow a value of schema 1",
        5: "it is no Avro of schema 1",
        6: "it is no Avro of schema 2",
        7: magic,
    }


def test_an_unreachable_registry_is_not_a_malformed_row() -> None:
    def writer_schema(_: int) -> AvroSchema:
        raise RegistryError("it does not respond")

    using = AvroDecoder("value.schema", AvroSchema('"string"'), "confluent", writer_schema)
    with pytest.raises(RegistryError):
        decode(using, b"\0\0\0\0\1\2x")


def test_single_object_encoding() -> None:
    """The fingerprint of "int" is the one that Avro's specification gives for its algorithm."""
    found = decode(
        decoder("int", "single-object"),
        b"\xc3\x01\x8f\x5c\x39\x3f\x1a\xd5\x75\x72\x02",
        b"\xc3\x01" + bytes(8),
        b"\x02",
    )
    assert found.column.to_pylist() == [1, None, None]
    assert found.malformed == {
        1: "its schema is another one than value.schema",
        2: "it does not begin with C3 01 and the fingerprint of a schema",
    }


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ("nothing", "is no Avro schema: unknown type nothing"),
        ({"type": "enum", "name": "R"}, "is no Avro schema: 'symbols' is missing"),
        (record(("a", ["null", "Flight"])), "Flight has itself in it: Spark has no recursive types"),
        (logical("bytes", "decimal", precision=39), "Spark has 1 to 38 digits"),
        (record(("a", "int"), ("A", "int")), "field 'A' is there twice"),
        ({"type": "record", "name": "R", "fields": []}, "a struct without fields"),
    ],
)
def test_schemas_that_spark_cannot_have(schema: Any, problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        decoder(schema)
    assert str(caught.value).startswith("value.schema")
    assert problem in str(caught.value)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"aiokproto": 1}', "'type' is missing"),
        ('{"type": "array", "items": ' * 500 + '"int"' + "}" * 500, "it nests too deeply"),
        ("[" * 100_000, "it nests too deeply"),
    ],
)
def test_texts_that_are_no_schema(text: str, problem: str) -> None:
    for schema in (AvroSchema.from_text(text), AvroSchema('"int"', (text,))):
        with pytest.raises(ConfigurationError, match=f"^value.schema is no Avro schema: .*{problem}"):
            parse_avro("value.schema", schema)


def test_referenced_schemas_come_first() -> None:
    inner = {"type": "record", "name": "org.example.In", "fields": [{"name": "x", "type": "int"}]}
    schema = AvroSchema(json.dumps(record(("n", "org.example.In"))), (json.dumps(inner),), 7)
    assert AvroSchema.from_text(schema.to_text()) == schema
    using = AvroDecoder("value.schema", schema, "none", None)
    assert decode(using, b"\x04").column.to_pylist() == [{"n": {"x": 2}}]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ({"type": "bytes", "logicalType": "decimal", "precision": 3, "scale": 1}, (b"\x02\x05", b"\x04\x7f\xff")),
        ({"type": "long", "logicalType": "timestamp-millis"}, (b"\x02", b"\xfe" + b"\xff" * 8 + b"\x01")),
        ("int", (b"\x02", b"\x80\x80\x80\x80\x80\x01")),
    ],
    ids=str,
)
def test_a_value_that_its_type_cannot_hold_is_malformed(kind: Any, values: tuple[bytes, bytes]) -> None:
    good, bad = values
    rows = pa.array([good, bad, b"", None, good], pa.binary())
    found = AvroDecoder("value.schema", AvroSchema(json.dumps(kind)), "none", None).decode(rows)
    assert [*found.malformed] == [1, 2]
    assert found.column.is_valid().to_pylist() == [True, False, False, False, True]
