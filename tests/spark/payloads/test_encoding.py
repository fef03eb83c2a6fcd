"""Columns to keys and values, as the sink writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from aiokproto.errors import ConfigurationError, InvalidRecordError
from aiokproto.spark.payloads.avro_format import AvroDecoder
from aiokproto.spark.payloads.ddl import parse_schema
from aiokproto.spark.payloads.encoding import PayloadEncoder, json_writer, with_writer_schemas
from aiokproto.spark.payloads.json_format import json_decoder
from aiokproto.spark.payloads.options import Payload, RegistryOptions
from aiokproto.spark.payloads.registry import AvroSchema
from aiokproto.spark.worker import Worker
from tests.spark.payloads.registry_server import SchemaRegistry

NOON = datetime(2020, 1, 2, 12, 0, 0, 678_901, tzinfo=timezone.utc)
DDL = (
    "a INT, b STRING, c DOUBLE, z BOOLEAN, t TIMESTAMP, u TIMESTAMP_NTZ, d DATE, p DECIMAL(6,2), x BINARY, "
    "n STRUCT<x: INT, t: TIMESTAMP>, l ARRAY<INT>, m MAP<STRING, INT>"
)
KIND = parse_schema("value.schema", DDL)
ROW: dict[str, Any] = {
    "a": 1,
    "b": 'é"\n',
    "c": 0.5,
    "z": True,
    "t": NOON,
    "u": NOON.replace(tzinfo=None),
    "d": date(2020, 1, 2),
    "p": Decimal("12.30"),
    "x": b"\xff",
    "n": {"x": None, "t": NOON},
    "l": [1, None],
    "m": [("k", 1), ("j", None)],
}
EMPTY = dict.fromkeys(ROW)


def schema_of(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "R", "fields": [{"name": name, "type": ["null", kind]} for name, kind in fields]}


AVRO = schema_of(
    ("l", {"type": "array", "items": ["null", "int"]}),
    ("m", {"type": "map", "values": ["null", "int"]}),
    ("n", {**schema_of(("t", {"type": "long", "logicalType": "timestamp-millis"}), ("x", "int")), "name": "N"}),
    ("a", "long"),
    ("b", "string"),
    ("c", "double"),
    ("z", "boolean"),
    ("t", {"type": "long", "logicalType": "timestamp-micros"}),
    ("u", {"type": "long", "logicalType": "local-timestamp-micros"}),
    ("d", {"type": "int", "logicalType": "date"}),
    ("p", {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}),
    ("x", "bytes"),
    ("more", "string"),
)


@pytest.fixture
def server() -> Iterator[SchemaRegistry]:
    with SchemaRegistry() as running:
        yield running


def encode(payload: Payload, values: list[Any], kind: pa.DataType = KIND) -> list[bytes | None]:
    batch = pa.RecordBatch.from_arrays([pa.array(values, kind), pa.array(range(len(values)))], ["value", "partition"])
    found = PayloadEncoder([payload]).encode(batch, 100)
    assert found.schema.names == ["value", "partition"]
    rows: list[bytes | None] = found.column("value").to_pylist()
    return rows


def test_json_that_is_read_again_is_the_same() -> None:
    rows = encode(Payload("value", "json", None, "permissive"), [ROW, None, EMPTY])
    assert rows[1:] == [None, b"{}"]
    text = (rows[0] or b"").decode()
    assert json.loads(text)["n"] == {"t": "2020-01-02T12:00:00.678901Z"}
    assert '"b":"é\\"\\n"' in text
    assert '"p":12.30' in text
    decoded = json_decoder(KIND)(pa.array(rows, pa.binary()))
    assert decoded.column.to_pylist() == [ROW, None, EMPTY]
    assert not decoded.malformed


def test_json_of_single_values() -> None:
    assert json_writer(pa.float64())(float("nan")) == '"NaN"'
    assert json_writer(pa.float64())(float("-inf")) == '"-Infinity"'
    assert json_writer(pa.map_(pa.int32(), pa.string()))([(1, "x")]) == '{"1":"x"}'
    assert json_writer(pa.map_(pa.date32(), pa.int32()))([(date(2020, 1, 2), 1)]) == '{"2020-01-02":1}'
    assert json_writer(pa.map_(pa.string(), pa.int32()))([('é"', 1)]) == '{"é\\"":1}'
    (single,) = pa.array([0.1], pa.float32()).to_pylist()
    assert [json_writer(pa.float32())(one) for one in (single, float("inf"))] == ["0.1", '"Infinity"']
    with pytest.raises(ConfigurationError, match="cannot be written as JSON"):
        json_writer(pa.duration("us"))


def test_avro_that_is_read_again_is_the_same() -> None:
    schema = json.dumps(AVRO)
    rows = encode(Payload("value", "avro", schema, "failfast"), [ROW, None, EMPTY])
    decoded = AvroDecoder("value.schema", AvroSchema(schema), "none", None).decode(pa.array(rows, pa.binary()))
    assert not decoded.malformed
    # Milliseconds.
    inner = {"x": None, "t": NOON.replace(microsecond=678_000)}
    assert decoded.column.to_pylist() == [{**ROW, "n": inner, "more": None}, None, {**EMPTY, "more": None}]


def test_the_id_of_the_subjects_schema_is_before_each_value(worker: Worker, server: SchemaRegistry) -> None:
    server.register("other", "string")
    number = server.register("t-value", schema_of(("a", "int")))
    payload = Payload(
        "value", "avro", None, "failfast", framing="confluent", registry=RegistryOptions(server.url), subject="t-value"
    )
    (found,) = with_writer_schemas(lambda: worker, [payload])
    kind = parse_schema("value.schema", "a INT")
    assert encode(found, [{"a": 1}], kind) == [b"\0\0\0\0" + bytes([number]) + b"\x02\x02"]


def test_a_schema_of_the_options_is_looked_up_or_registered(worker: Worker, server: SchemaRegistry) -> None:
    schema = json.dumps(schema_of(("a", "int")))
    payload = Payload(
        "value", "avro", schema, "failfast", framing="confluent", registry=RegistryOptions(server.url), subject="s"
    )
    with pytest.raises(
        ConfigurationError, match=r"value\.schema is not registered in subject s \(schema\.registry\.auto"
    ):
        with_writer_schemas(lambda: worker, [payload])
    first, again = (with_writer_schemas(lambda: worker, [replace(payload, register=True)])[0] for _ in range(2))
    assert AvroSchema.from_text(first.schema or "").id == 1
    assert again == first
    assert with_writer_schemas(lambda: worker, [payload])[0].schema == first.schema


@pytest.mark.parametrize("schema", ['"nothing"', '["int", "string"]'])
def test_a_schema_that_cannot_be_written_is_not_registered(worker: Worker, server: SchemaRegistry, schema: str) -> None:
    payload = Payload(
        "value",
        "avro",
        schema,
        "failfast",
        framing="confluent",
        registry=RegistryOptions(server.url),
        subject="s",
        register=True,
    )
    with pytest.raises(ConfigurationError, match=r"^value\.schema (is no Avro schema|has a union)"):
        with_writer_schemas(lambda: worker, [payload])
    assert not server.requests


def test_what_cannot_be_written_names_the_row() -> None:
    required = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]}
    kind = parse_schema("value.schema", "a INT")
    with pytest.raises(InvalidRecordError, match=r"^row 101: the value cannot be written as avro: "):
        encode(Payload("value", "avro", json.dumps(required), "failfast"), [{"a": 1}, {"a": None}], kind)
    other = parse_schema("value.schema", "a INT, b INT")
    with pytest.raises(InvalidRecordError, match=r"^rows from 100 on: column value: field b is not in the schema"):
        encode(Payload("value", "avro", json.dumps(required), "failfast"), [{"a": 1}], other)


def test_a_year_that_python_does_not_have_names_the_rows() -> None:
    late = pa.array([{"d": 2932897}], pa.struct([("d", pa.date32())]))
    batch = pa.RecordBatch.from_arrays([late], ["value"])
    with pytest.raises(InvalidRecordError, match="rows from 100 on: column value: date value out of range"):
        PayloadEncoder([Payload("value", "json", None, "permissive")]).encode(batch, 100)


def test_formats_that_cannot_be_written(worker: Worker) -> None:
    union = json.dumps(schema_of(("a", "int")) | {"fields": [{"name": "a", "type": ["int", "string"]}]})
    for payload, problem in (
        (Payload("value", "json", "a INT", "permissive"), "value.schema has no effect"),
        (Payload("value", "avro", '"int"', "failfast", framing="single-object"), "is for reading"),
        (Payload("value", "avro", union, "failfast"), "has a union of several types"),
    ):
        with pytest.raises(ConfigurationError, match=problem):
            with_writer_schemas(lambda: worker, [payload])
