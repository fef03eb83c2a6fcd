"""From Avro to typed columns: the framing of a value, the writer's schema, and its resolution to the reader's."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from aiokproto.spark.payloads.avro_types import AvroTypes, ParsedSchema, arrow_types, parse_avro, require_fastavro
from aiokproto.spark.payloads.json_format import Decoded
from aiokproto.spark.payloads.registry import AvroSchema, RegistryError, UnknownSchemaError

if TYPE_CHECKING:
    import pyarrow as pa

MAGIC = b"\0"
SINGLE_OBJECT = b"\xc3\x01"
_ID = struct.Struct(">I")
HEAD = 5
"""Bytes before a value with Confluent's framing: 0, and the 4-byte id of the schema."""
SINGLE_OBJECT_HEAD = 10
"""Bytes before a value with single-object encoding: C3 01, and the 8-byte fingerprint of the schema."""

WriterSchema = Callable[[int], AvroSchema]
"""Returns the schema with this id. Raises :class:`RegistryError`."""

_Reader = Callable[[bytes], Any]


class MalformedError(Exception):
    """A value isn't in its column's format. The message says why."""


class AvroDecoder:
    """Decodes a column of bytes in Avro."""

    def __init__(self, option: str, schema: AvroSchema, framing: str, writer_schema: WriterSchema | None) -> None:
        """``writer_schema`` is required for the framing ``confluent``. Raises :class:`ConfigurationError`."""
        self._fastavro = require_fastavro()
        self._option = option
        self._reader = parse_avro(option, schema)
        self.types: AvroTypes = arrow_types(option, self._reader)
        self._writer_schema = writer_schema
        self._readers: dict[int, _Reader] = {}
        self._read = {"confluent": self._confluent, "single-object": self._single_object, "none": self._plain}[framing]
        self._own = self._reader_of(None)
        self._fingerprint = self._fastavro.schema.fingerprint(
            self._fastavro.schema.to_parsing_canonical_form(self._reader.schema), "CRC-64-AVRO"
        )

    def decode(self, values: pa.Array) -> Decoded:
        """Return the column's values, and what is wrong with the malformed rows.

        Raises:
            RegistryError: A writer's schema couldn't be fetched.
        """
        import pyarrow as pa

        found: list[Any] = []
        malformed: dict[int, str] = {}
        for row, data in enumerate(values.to_pylist()):
            try:
                found.append(None if data is None else self._read(data))
            except MalformedError as error:
                malformed[row] = str(error)
                found.append(None)
        try:
            return Decoded(self._column(found), malformed)
        except (pa.ArrowInvalid, OverflowError):
            # Find the rows with values that Avro allows but Arrow's type doesn't: a decimal with too many digits, or a
            # time in milliseconds that is too late to be expressed in microseconds.
            for row, value in enumerate(found):
                try:
                    self._column([value])
                except (pa.ArrowInvalid, OverflowError) as error:
                    malformed[row] = f"a value is none of its type: {error}"
                    found[row] = None
            return Decoded(self._column(found), dict(sorted(malformed.items())))

    def _column(self, found: list[Any]) -> pa.Array:
        import pyarrow as pa

        types = self.types
        column = pa.array(found, types.values)
        if types.seen != types.values:
            column = column.view(types.seen)
        return column if types.column == types.seen else column.cast(types.column)

    def _confluent(self, data: bytes) -> Any:
        if data[:1] != MAGIC or len(data) < HEAD:
            raise MalformedError("it does not begin with a magic byte 0 and the id of a schema")
        (schema_id,) = _ID.unpack_from(data, 1)
        read = self._readers.get(schema_id)
        if read is None:
            read = self._readers[schema_id] = self._reader_of_id(schema_id)
        return read(data[HEAD:])

    def _single_object(self, data: bytes) -> Any:
        if data[:2] != SINGLE_OBJECT or len(data) < SINGLE_OBJECT_HEAD:
            raise MalformedError("it does not begin with C3 01 and the fingerprint of a schema")
        # The bytes are in little-endian order, and so are the hex digits from fastavro.
        if data[2:SINGLE_OBJECT_HEAD].hex() != self._fingerprint:
            raise MalformedError(f"its schema is another one than {self._option}")
        return self._own(data[SINGLE_OBJECT_HEAD:])

    def _plain(self, data: bytes) -> Any:
        return self._own(data)

    def _reader_of_id(self, schema_id: int) -> _Reader:
        assert self._writer_schema is not None, "the framing needs a registry"
        try:
            schema = self._writer_schema(schema_id)
        except UnknownSchemaError as error:
            problem = f"schema {schema_id} is unknown: {error}"

            def unknown(_: bytes) -> Any:
                raise MalformedError(problem)

            return unknown
        writer = parse_avro(f"schema {schema_id} of the registry", schema)
        return self._reader_of(None if writer.schema == self._reader.schema else writer, f"schema {schema_id}")

    def _reader_of(self, writer: ParsedSchema | None, name: str = "the schema") -> _Reader:
        read = self._fastavro.schemaless_reader
        shape = self.types.shape
        schemas = (self._reader.schema, None) if writer is None else (writer.schema, self._reader.schema)
        named = shape is not None

        def value(data: bytes) -> Any:
            source = io.BytesIO(data)
            try:
                found = read(source, *schemas, return_named_type=named)
                rest = len(data) - source.tell()
                if rest:
                    raise MalformedError(f"{rest} bytes follow a value of {name}")
                return found if shape is None else shape(found)
            except MalformedError:
                raise
            except RegistryError:
                raise
            # Catch everything: fastavro raises any error, such as IndexError, for bytes that aren't Avro.
            except Exception as error:  # noqa: BLE001
                raise MalformedError(f"it is no Avro of {name}: {type(error).__name__}: {error}") from None

        return value
