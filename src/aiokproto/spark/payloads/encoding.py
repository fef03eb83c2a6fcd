"""From typed columns to the bytes of keys and values, in the sink."""

from __future__ import annotations

import base64
import io
import json
import math
import struct
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from aiokproto.errors import ConfigurationError, InvalidRecordError
from aiokproto.spark.payloads.avro_format import MAGIC
from aiokproto.spark.payloads.avro_types import arrow_types, parse_avro, require_fastavro
from aiokproto.spark.payloads.options import Payload
from aiokproto.spark.payloads.registry import AvroSchema, Registry, UnknownSchemaError

if TYPE_CHECKING:
    import pyarrow as pa

    from aiokproto.spark.worker import Worker

Encoder = Callable[[Any], bytes]


def with_writer_schemas(get_worker: Callable[[], Worker], payloads: Sequence[Payload]) -> tuple[Payload, ...]:
    """Return payloads with the schemas that rows are written with, and their ids.

    Raises:
        ConfigurationError: The format can't be written, or there is no schema, or the registry doesn't have it.
        RegistryError: The registry doesn't respond, or rejects the client or the schema.
    """
    return tuple(_with_schema(get_worker, payload) for payload in payloads)


def _with_schema(get_worker: Callable[[], Worker], payload: Payload) -> Payload:
    option = payload.option("schema")
    if payload.format == "json":
        if payload.schema is not None:
            raise ConfigurationError(f"{option} has no effect: the column's type is written")
        return payload
    if payload.framing == "single-object":
        raise ConfigurationError(f"{payload.option('framing')}=single-object is for reading")
    if payload.registry is None or payload.subject is None:
        if payload.schema is None or payload.framing == "confluent":
            raise ConfigurationError(f"{payload.option('subject')} is required: the topic is not a single one")
        found = AvroSchema.from_text(payload.schema)
    else:
        registry = Registry(payload.registry)
        if payload.schema is None:
            found = get_worker().start(registry.of_subject(payload.subject, payload.version)).result()
        else:
            found = AvroSchema.from_text(payload.schema)
            # Check it first: a schema that can't be written must not be registered.
            _check(option, found)
            request = registry.id_of(payload.subject, found, register=payload.register)
            try:
                found = replace(found, id=get_worker().start(request).result())
            except UnknownSchemaError as error:
                raise ConfigurationError(
                    f"{option} is not registered in subject {payload.subject} "
                    f"(schema.registry.auto.register=true registers it): {error}"
                ) from None
    _check(option, found)
    return replace(payload, schema=found.to_text())


def _check(option: str, schema: AvroSchema) -> None:
    if arrow_types(option, parse_avro(option, schema)).shape is not None:
        raise ConfigurationError(f"{option} has a union of several types, which rows cannot be written with")


class PayloadEncoder:
    """Encodes the columns of batches, in a task."""

    def __init__(self, payloads: Sequence[Payload]) -> None:
        """Raises :class:`ConfigurationError` if a schema is malformed, or fastavro isn't installed."""
        self._payloads = {payload.column: payload for payload in payloads}
        self._avro = {payload.column: _Avro(payload) for payload in payloads if payload.format == "avro"}

    def encode(self, batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
        """Return a batch whose keys and values are bytes. Nulls stay null.

        Args:
            batch: The rows.
            first: The number of the first row in its task, for errors.

        Raises:
            InvalidRecordError: A row can't be written in the format.
        """
        import pyarrow as pa

        arrays, names = batch.columns, batch.schema.names
        for index, name in enumerate(names):
            if (payload := self._payloads.get(name)) is None:
                continue
            try:
                values, encode = self._values(name, arrays[index])
            # OverflowError means a year outside the range of Python's dates.
            except (pa.ArrowException, ConfigurationError, OverflowError) as error:
                raise InvalidRecordError(f"rows from {first} on: column {name}: {error}") from None
            arrays[index] = pa.array(_encoded(payload, values, encode, first), pa.binary())
        return pa.RecordBatch.from_arrays(arrays, names)

    def _values(self, name: str, column: pa.Array) -> tuple[list[Any], Encoder]:
        if name in self._avro:
            return self._avro[name].values(column), self._avro[name].encode
        write = json_writer(column.type)
        return column.to_pylist(), lambda value: write(value).encode()


def _encoded(payload: Payload, values: list[Any], encode: Encoder, first: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    for number, value in enumerate(values, first):
        try:
            found.append(None if value is None else encode(value))
        # Catch everything: fastavro raises any error, such as AttributeError, for values that don't match.
        except Exception as error:  # noqa: BLE001
            problem = f"{type(error).__name__}: {error}"
            raise InvalidRecordError(
                f"row {number}: the {payload.column} cannot be written as {payload.format}: {problem}"
            ) from None
    return found


class _Avro:
    def __init__(self, payload: Payload) -> None:
        schema = AvroSchema.from_text(payload.schema or "")
        option = payload.option("schema")
        self._schema = parse_avro(option, schema).schema
        self._types = arrow_types(option, parse_avro(option, schema))
        self._head = b"" if payload.framing == "none" else MAGIC + struct.pack(">I", schema.id)
        self._write = require_fastavro().schemaless_writer
        self._as_dicts = _with_dicts(self._types.values)

    def values(self, column: pa.Array) -> list[Any]:
        """Return the values of a column as fastavro takes them."""
        types = self._types
        found = arranged(column, types.column)
        if types.seen != types.column:
            # Truncate microseconds to milliseconds, as Spark does.
            found = found.cast(types.seen, safe=False)
        if types.values != types.seen:
            found = found.view(types.values)
        values: list[Any] = found.to_pylist()
        convert = self._as_dicts
        return values if convert is None else [None if value is None else convert(value) for value in values]

    def encode(self, value: Any) -> bytes:
        """Return a value in Avro, after the bytes of its framing."""
        target = io.BytesIO()
        target.write(self._head)
        self._write(target, self._schema, value)
        return target.getvalue()


def arranged(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column with the fields of a type, in the type's order. Fields that the column lacks are null.

    Raises:
        ConfigurationError: A field of the column isn't in the type.
        pa.ArrowInvalid, pa.ArrowNotImplementedError: A value can't be cast to the type.
    """
    import pyarrow as pa

    types = pa.types
    mask = column.is_null() if column.null_count else None
    if types.is_struct(kind) and types.is_struct(column.type):
        own = {field.name: number for number, field in enumerate(column.type)}
        if other := own.keys() - {field.name for field in kind}:
            raise ConfigurationError(f"field {min(other)} is not in the schema")
        children = [
            arranged(column.field(own[field.name]), field.type)
            if field.name in own
            else pa.nulls(len(column), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(children, fields=list(kind), mask=mask)
    if types.is_list(kind) and types.is_list(column.type):
        flat = arranged(column.flatten(), kind.value_type)
        lengths = column.value_lengths().fill_null(0)
        return pa.ListArray.from_arrays(_offsets(lengths), flat, type=kind, mask=mask)
    return column.cast(kind)


def _offsets(lengths: pa.Array) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    return pa.array(np.concatenate(([0], np.cumsum(lengths.to_numpy()))).astype(np.int32))


def _with_dicts(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Return a function that turns maps, which are lists of pairs in Arrow, into dicts; None if there are no maps."""
    import pyarrow as pa

    def optional(convert: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
        return None if convert is None else lambda value: None if value is None else convert(value)

    if pa.types.is_map(kind):
        item = optional(_with_dicts(kind.item_type))
        return (lambda pairs: dict(pairs)) if item is None else (lambda pairs: {k: item(v) for k, v in pairs})
    if pa.types.is_list(kind):
        element = optional(_with_dicts(kind.value_type))
        return None if element is None else lambda values: [element(value) for value in values]
    if pa.types.is_struct(kind):
        fields = {field.name: to_dicts for field in kind if (to_dicts := optional(_with_dicts(field.type))) is not None}
        if not fields:
            return None
        return lambda value: {**value, **{name: convert(value[name]) for name, convert in fields.items()}}
    return None


def json_writer(kind: pa.DataType) -> Callable[[Any], str]:
    """Return a function that writes values of a type as JSON. Like Spark's ``to_json`` it leaves out null fields."""
    import pyarrow as pa

    types = pa.types
    if types.is_struct(kind):
        fields = [(field.name, json.dumps(field.name, ensure_ascii=False), json_writer(field.type)) for field in kind]
        return lambda value: (
            "{"
            + ",".join(f"{key}:{write(item)}" for name, key, write in fields if (item := value[name]) is not None)
            + "}"
        )
    if types.is_map(kind):
        item = _or_null(json_writer(kind.item_type))
        write_key = json_writer(kind.key_type)
        key_text = str if types.is_string(kind.key_type) else lambda key: write_key(key).strip('"')
        return lambda pairs: (
            "{" + ",".join(f"{json.dumps(key_text(k), ensure_ascii=False)}:{item(v)}" for k, v in pairs) + "}"
        )
    if types.is_list(kind):
        element = _or_null(json_writer(kind.value_type))
        return lambda values: "[" + ",".join(map(element, values)) + "]"
    if types.is_boolean(kind):
        return lambda value: "true" if value else "false"
    if types.is_float32(kind):
        return _float32
    if types.is_floating(kind):
        return lambda value: repr(value) if math.isfinite(value) else f'"{_NOT_FINITE[repr(value)]}"'
    if types.is_integer(kind):
        return str
    if types.is_decimal(kind):
        return lambda value: f"{value:f}"
    if types.is_timestamp(kind):
        return lambda value: f'"{value.isoformat().replace("+00:00", "Z")}"'
    if types.is_date(kind):
        return lambda value: f'"{value.isoformat()}"'
    if types.is_binary(kind):
        return lambda value: f'"{base64.b64encode(value).decode()}"'
    if types.is_string(kind):
        return lambda value: json.dumps(value, ensure_ascii=False)
    raise ConfigurationError(f"{kind} cannot be written as JSON: cast it, or use to_json")


def _float32(value: float) -> str:
    import numpy as np

    # Write only the digits that a 32-bit float needs. repr() would write as many as a 64-bit float needs.
    return str(np.float32(value)) if math.isfinite(value) else f'"{_NOT_FINITE[repr(value)]}"'


_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _or_null(write: Callable[[Any], str]) -> Callable[[Any], str]:
    return lambda value: "null" if value is None else write(value)
