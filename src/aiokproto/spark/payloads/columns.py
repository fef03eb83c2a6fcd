"""From the bytes of keys and values to typed columns: the schema on the driver, and decoding in tasks."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from aiokproto.errors import ConfigurationError, KafkaError
from aiokproto.spark.payloads.avro_format import AvroDecoder
from aiokproto.spark.payloads.avro_types import arrow_types, parse_avro
from aiokproto.spark.payloads.ddl import parse_schema
from aiokproto.spark.payloads.json_format import Decoded, json_decoder
from aiokproto.spark.payloads.options import Payload
from aiokproto.spark.payloads.registry import AvroSchema, Registry

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


class PayloadError(KafkaError):
    """A key or value is not what its format says; the text has topic, partition and offset."""


class Loop(Protocol):
    """What runs coroutines for a thread without an event loop."""

    def start(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Run a coroutine."""
        ...


def with_schemas(loop: Callable[[], Loop], payloads: Sequence[Payload]) -> tuple[Payload, ...]:
    """Return payloads with their schemas, which are requested from the registry where options do not give them.

    Raises:
        ConfigurationError: There is no schema.
        RegistryError: The registry does not have it, or does not respond.
    """
    return tuple(_with_schema(loop, one) for one in payloads)


def _with_schema(loop: Callable[[], Loop], payload: Payload) -> Payload:
    if payload.schema is not None:
        return payload
    if payload.registry is None or payload.subject is None:
        raise ConfigurationError(f"{payload.option('schema')} is required for format {payload.format}")
    registry = Registry(payload.registry)
    found = loop().start(registry.of_subject(payload.subject, payload.version)).result()
    return replace(payload, schema=found.to_text())


def column_type(payload: Payload) -> pa.DataType:
    """Return the type of a column.

    Raises:
        ConfigurationError: The schema is malformed, or Spark has no such type.
    """
    option, schema = payload.option("schema"), payload.schema
    if schema is None:
        raise ConfigurationError(f"{option} is required for format {payload.format}")
    if payload.format == "json":
        found = parse_schema(option, schema)
        _check_corrupt(payload, found)
        return found
    return arrow_types(option, parse_avro(option, AvroSchema.from_text(schema))).column


def _check_corrupt(payload: Payload, kind: pa.DataType) -> None:
    import pyarrow as pa

    if any(field.name == payload.corrupt and field.type != pa.string() for field in kind):
        raise ConfigurationError(
            f"{payload.option('schema')}: {payload.corrupt} is for the text of malformed rows: STRING"
        )


class DecodedBatch(NamedTuple):
    """Rows whose columns were decoded.

    Attributes:
        rows: The rows, without those that shall be dropped.
        malformed: The numbers of the malformed rows, before any was dropped, each with what is wrong.
    """

    rows: pa.RecordBatch
    malformed: dict[int, str]


class PayloadDecoder:
    """Decodes the columns of batches, in a task."""

    def __init__(self, loop: Loop, payloads: Sequence[Payload]) -> None:
        """Raises :class:`ConfigurationError` as :func:`column_type`."""
        self._payloads = {one.column: one for one in payloads}
        self._decoders = {one.column: _decoder(loop, one) for one in payloads}

    def decode(self, batch: pa.RecordBatch, offsets: Any, partition: object) -> DecodedBatch:
        """Return a batch with typed columns, and without the rows that shall be dropped; and which are malformed.

        Args:
            batch: The rows.
            offsets: The offset of each, by its number, for errors.
            partition: Topic and partition, for errors.

        Raises:
            PayloadError: A row is malformed, and its column's mode is ``failfast``.
            RegistryError: A writer's schema cannot be found out.
        """
        import pyarrow as pa

        arrays, dropped, malformed = batch.columns, set[int](), dict[int, str]()
        for place, name in enumerate(batch.schema.names):
            payload = self._payloads.get(name)
            if payload is None:
                continue
            decoded = self._decoders[name](arrays[place])
            if decoded.malformed and payload.mode == "failfast":
                row, problem = next(iter(decoded.malformed.items()))
                raise PayloadError(
                    f"{partition} offset {offsets[row]}: the {name} is malformed: {problem} "
                    f"({payload.option('mode')}=permissive has null for it, dropmalformed leaves the record out)"
                )
            if payload.mode == "dropmalformed":
                dropped |= decoded.malformed.keys()
            for row, problem in decoded.malformed.items():
                before = f"{malformed[row]}; " if row in malformed else ""
                malformed[row] = f"{before}the {name} is malformed: {problem}"
            arrays[place] = decoded.column
        found = pa.RecordBatch.from_arrays(arrays, batch.schema.names)
        return DecodedBatch(found.filter(_kept(len(batch), dropped)) if dropped else found, malformed)


def _kept(count: int, dropped: set[int]) -> pa.Array:
    import pyarrow as pa

    return pa.array([row not in dropped for row in range(count)], pa.bool_())


def _decoder(loop: Loop, payload: Payload) -> Callable[[pa.Array], Decoded]:
    kind = column_type(payload)
    if payload.format == "json":
        return _json(payload, kind)
    registry = None if payload.registry is None else Registry(payload.registry)
    schema = AvroSchema.from_text(payload.schema or "")

    def writer_schema(schema_id: int) -> AvroSchema:
        assert registry is not None, "only a framing with ids has a registry"
        return schema if schema_id == schema.id else loop.start(registry.by_id(schema_id)).result()

    return AvroDecoder(payload.option("schema"), schema, payload.framing, writer_schema).decode


def _json(payload: Payload, kind: pa.DataType) -> Callable[[pa.Array], Decoded]:
    import pyarrow as pa

    fields = list(kind)
    place = next((number for number, field in enumerate(fields) if field.name == payload.corrupt), None)
    if place is None:
        return json_decoder(kind)
    others = [field for number, field in enumerate(fields) if number != place]
    if not others:
        raise ConfigurationError(f"{payload.option('schema')} has no field besides {payload.corrupt}")
    decode = json_decoder(pa.struct(others))

    def with_text(values: pa.Array) -> Decoded:
        decoded = decode(values)
        texts = _texts(values, decoded.malformed)
        columns = [decoded.column.field(number) for number in range(len(others))]
        columns.insert(place, texts)
        mask = decoded.column.is_null() if decoded.column.null_count else None
        return Decoded(pa.StructArray.from_arrays(columns, fields=fields, mask=mask), decoded.malformed)

    return with_text


def _texts(values: pa.Array, malformed: Mapping[int, str]) -> pa.Array:
    """Return the texts of malformed rows, and null for others."""
    import pyarrow as pa

    if not malformed:
        return pa.nulls(len(values), pa.string())
    found: list[str | None] = [None] * len(values)
    for row in malformed:
        found[row] = values[row].as_py().decode(errors="replace")
    return pa.array(found, pa.string())
