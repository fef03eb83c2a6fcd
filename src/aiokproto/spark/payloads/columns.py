"""From the bytes of keys and values to typed columns: the schema on the driver, and decoding in tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from aiokproto.errors import ConfigurationError, KafkaError
from aiokproto.spark.payloads.avro_format import AvroDecoder
from aiokproto.spark.payloads.avro_types import arrow_types, parse_avro
from aiokproto.spark.payloads.ddl import parse_schema
from aiokproto.spark.payloads.json_format import Decoded, json_decoder
from aiokproto.spark.payloads.options import Payload
from aiokproto.spark.payloads.registry import AvroSchema, Registry

if TYPE_CHECKING:
    import pyarrow as pa

    from aiokproto.spark.worker import Worker


class PayloadError(KafkaError):
    """A key or value isn't in its format. The message names topic, partition and offset."""


def with_schemas(get_worker: Callable[[], Worker], payloads: Sequence[Payload]) -> tuple[Payload, ...]:
    """Return payloads with their schemas. Schemas that aren't in the options are fetched from the registry.

    Raises:
        ConfigurationError: There is no schema.
        RegistryError: The registry doesn't have the schema, or doesn't respond.
    """
    return tuple(_with_schema(get_worker, payload) for payload in payloads)


def _with_schema(get_worker: Callable[[], Worker], payload: Payload) -> Payload:
    if payload.schema is not None:
        return payload
    if payload.registry is None or payload.subject is None:
        raise ConfigurationError(f"{payload.option('schema')} is required for format {payload.format}")
    registry = Registry(payload.registry)
    found = get_worker().start(registry.of_subject(payload.subject, payload.version)).result()
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
        rows: The rows, without the dropped ones.
        malformed: What is wrong with each malformed row, by its index before any row was dropped.
    """

    rows: pa.RecordBatch
    malformed: dict[int, str]


class PayloadDecoder:
    """Decodes the columns of batches, in a task."""

    def __init__(self, worker: Worker, payloads: Sequence[Payload]) -> None:
        """Raises :class:`ConfigurationError`, like :func:`column_type`."""
        self._payloads = {payload.column: payload for payload in payloads}
        self._decoders = {payload.column: _decoder(worker, payload) for payload in payloads}

    def decode(self, batch: pa.RecordBatch, offsets: Any, partition: object) -> DecodedBatch:
        """Return a batch with typed columns, without the dropped rows, and the malformed rows.

        Args:
            batch: The rows.
            offsets: The offset of each row, by its index, for errors.
            partition: Topic and partition, for errors.

        Raises:
            PayloadError: A row is malformed, and its column's mode is ``failfast``.
            RegistryError: A writer's schema couldn't be fetched.
        """
        import pyarrow as pa

        arrays, dropped, malformed = batch.columns, set[int](), dict[int, str]()
        for index, name in enumerate(batch.schema.names):
            payload = self._payloads.get(name)
            if payload is None:
                continue
            decoded = self._decoders[name](arrays[index])
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
            arrays[index] = decoded.column
        found = pa.RecordBatch.from_arrays(arrays, batch.schema.names)
        return DecodedBatch(found.filter(_mask_of_kept(len(batch), dropped)) if dropped else found, malformed)


def _mask_of_kept(count: int, dropped: set[int]) -> pa.Array:
    import pyarrow as pa

    return pa.array([row not in dropped for row in range(count)], pa.bool_())


def _decoder(worker: Worker, payload: Payload) -> Callable[[pa.Array], Decoded]:
    kind = column_type(payload)
    if payload.format == "json":
        return _json(payload, kind)
    registry = None if payload.registry is None else Registry(payload.registry)
    schema = AvroSchema.from_text(payload.schema or "")

    def writer_schema(schema_id: int) -> AvroSchema:
        assert registry is not None, "only a framing with ids has a registry"
        return schema if schema_id == schema.id else worker.start(registry.by_id(schema_id)).result()

    return AvroDecoder(payload.option("schema"), schema, payload.framing, writer_schema).decode


def _json(payload: Payload, kind: pa.DataType) -> Callable[[pa.Array], Decoded]:
    import pyarrow as pa

    fields = list(kind)
    corrupt = next((index for index, field in enumerate(fields) if field.name == payload.corrupt), None)
    if corrupt is None:
        return json_decoder(kind)
    others = [field for index, field in enumerate(fields) if index != corrupt]
    if not others:
        raise ConfigurationError(f"{payload.option('schema')} has no field besides {payload.corrupt}")
    decode = json_decoder(pa.struct(others))

    def with_text(values: pa.Array) -> Decoded:
        decoded = decode(values)
        texts = _texts(values, decoded.malformed)
        columns = [decoded.column.field(index) for index in range(len(others))]
        columns.insert(corrupt, texts)
        mask = decoded.column.is_null() if decoded.column.null_count else None
        return Decoded(pa.StructArray.from_arrays(columns, fields=fields, mask=mask), decoded.malformed)

    return with_text


def _texts(values: pa.Array, malformed: Mapping[int, str]) -> pa.Array:
    """Return the text of each malformed row, and null for all other rows."""
    import pyarrow as pa

    if not malformed:
        return pa.nulls(len(values), pa.string())
    found: list[str | None] = [None] * len(values)
    for row in malformed:
        found[row] = values[row].as_py().decode(errors="replace")
    return pa.array(found, pa.string())
