"""Converts Avro schemas to the Arrow types that Spark uses. Needs fastavro.

fastavro gets schemas without their logical types, except decimals: plain numbers are faster than Python's dates and
times, and aren't limited to the year 9999. So there are two types with the same layout: fastavro's values are put into
an array of the first (``values``), which is then viewed as the second (``seen``). Arrow casts it to the type of the
column.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from aiokproto.errors import ConfigurationError
from aiokproto.spark.payloads.ddl import MAX_DEPTH, checked_names, decimal, list_of, map_of
from aiokproto.spark.payloads.registry import AvroSchema

if TYPE_CHECKING:
    import pyarrow as pa

Shaper = Callable[[Any], Any]


def require_fastavro() -> Any:
    """Return fastavro.

    Raises:
        ConfigurationError: It isn't installed.
    """
    try:
        import fastavro
    except ImportError:
        raise ConfigurationError('format avro needs fastavro: pip install "aiokproto[avro]"') from None
    return fastavro


class AvroTypes(NamedTuple):
    """The Arrow types of a schema.

    Attributes:
        values: The type of the values as fastavro reads them.
        seen: The same, with the units of dates and times.
        column: The type of the column.
        shape: Turns unions in the values into structs; None if no union needs it. Values of named types in unions must
            be pairs of name and value.
    """

    values: pa.DataType
    seen: pa.DataType
    column: pa.DataType
    shape: Shaper | None


class ParsedSchema(NamedTuple):
    """A schema as fastavro takes it.

    Attributes:
        schema: The schema, parsed.
        named: All named types, by full name.
    """

    schema: Any
    named: Mapping[str, Any]


def parse_avro(option: str, schema: AvroSchema) -> ParsedSchema:
    """Parse a schema and the schemas that it refers to, without logical types other than decimals.

    Raises:
        ConfigurationError: A schema is malformed, or fastavro isn't installed.
    """
    fastavro = require_fastavro()
    named: dict[str, Any] = {}
    try:
        for text in schema.references:
            fastavro.parse_schema(_plain(json.loads(text)), named_schemas=named)
        return ParsedSchema(fastavro.parse_schema(_plain(json.loads(schema.schema)), named_schemas=named), named)
    except fastavro.schema.UnknownType as error:
        raise ConfigurationError(f"{option} is no Avro schema: unknown type {error}") from None
    except RecursionError:
        raise ConfigurationError(f"{option} is no Avro schema: it nests too deeply") from None
    except (fastavro.schema.SchemaParseException, ValueError, KeyError, TypeError) as error:
        problem = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ConfigurationError(f"{option} is no Avro schema: {problem}") from None


_LOGICAL_TYPE = "aiokproto.logicalType"
"""The property that hides a logical type from fastavro."""


def _plain(schema: Any) -> Any:
    """Return a schema whose logical types, except decimals, are properties that fastavro ignores."""
    if isinstance(schema, list):
        return [_plain(branch) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _plain(value) if name in ("type", "items", "values") else value for name, value in schema.items()}
    if "fields" in schema:
        found["fields"] = [_plain(entry) for entry in schema["fields"]]
    if found.get("logicalType", "decimal") != "decimal":
        found[_LOGICAL_TYPE] = found.pop("logicalType")
    return found


def arrow_types(option: str, parsed: ParsedSchema) -> AvroTypes:
    """Return the types of a schema.

    Raises:
        ConfigurationError: Spark has no such type: it's recursive, or a decimal is too long.
    """
    try:
        types = _Mapper(parsed.named, with_names=False).types(parsed.schema, ())
        return types if types.shape is None else _Mapper(parsed.named, with_names=True).types(parsed.schema, ())
    except ValueError as error:
        raise ConfigurationError(f"{option}: {error}") from None


def _primitives() -> dict[str, pa.DataType]:
    import pyarrow as pa

    return {
        "null": pa.null(),
        "boolean": pa.bool_(),
        "int": pa.int32(),
        "long": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "bytes": pa.binary(),
        "enum": pa.string(),
        "fixed": pa.binary(),
    }


def _temporal(kind: str, logical: object) -> tuple[pa.DataType, pa.DataType] | None:
    import pyarrow as pa

    utc, local = pa.timestamp("us", tz="UTC"), pa.timestamp("us")
    return {
        ("int", "date"): (pa.date32(), pa.date32()),
        ("long", "timestamp-millis"): (pa.timestamp("ms", tz="UTC"), utc),
        ("long", "timestamp-micros"): (utc, utc),
        ("long", "local-timestamp-millis"): (pa.timestamp("ms"), local),
        ("long", "local-timestamp-micros"): (local, local),
    }.get((kind, str(logical)))


class _Mapper:
    def __init__(self, named: Mapping[str, Any], *, with_names: bool) -> None:
        """With ``with_names``, values of named types in unions are pairs of name and value."""
        self._named = named
        self._with_names = with_names
        self._primitives = _primitives()

    def types(self, schema: Any, within: tuple[str, ...]) -> AvroTypes:
        if len(within) > MAX_DEPTH:
            raise ValueError(f"more than {MAX_DEPTH} types within each other")
        if isinstance(schema, list):
            return self._union(schema, within)
        if isinstance(schema, str):
            return self._primitive(schema, {}) if schema in self._primitives else self._name(schema, within)
        kind = schema["type"]
        if isinstance(kind, (dict, list)):
            return self.types(kind, within)
        if kind in ("record", "error"):
            return self._record(schema, within)
        if kind == "array":
            item = self.types(schema["items"], (*within, ""))
            return AvroTypes(list_of(item.values), list_of(item.seen), list_of(item.column), _each(item.shape))
        if kind == "map":
            item = self.types(schema["values"], (*within, ""))
            values, seen, column = (map_of(self._primitives["string"], kind) for kind in item[:3])
            return AvroTypes(values, seen, column, _each_value(item.shape))
        return self._primitive(kind, schema) if kind in self._primitives else self._name(kind, within)

    def _name(self, name: str, within: tuple[str, ...]) -> AvroTypes:
        return self.types(self._named[name], within)

    def _primitive(self, kind: str, schema: Mapping[str, Any]) -> AvroTypes:
        if kind in ("bytes", "fixed") and schema.get("logicalType") == "decimal":
            found = decimal(int(schema["precision"]), int(schema.get("scale", 0)))
            return AvroTypes(found, found, found, None)
        values = self._primitives[kind]
        seen, column = _temporal(kind, schema.get(_LOGICAL_TYPE)) or (values, values)
        return AvroTypes(values, seen, column, None)

    def _record(self, schema: Mapping[str, Any], within: tuple[str, ...]) -> AvroTypes:
        name = str(schema["name"])
        if name in within:
            raise ValueError(f"{name} has itself in it: Spark has no recursive types")
        fields = [(str(entry["name"]), self.types(entry["type"], (*within, name))) for entry in schema["fields"]]
        return self._struct(fields, _fields({field: types.shape for field, types in fields if types.shape}))

    def _struct(self, fields: list[tuple[str, AvroTypes]], shape: Shaper | None) -> AvroTypes:
        import pyarrow as pa

        checked_names([(name, types.column) for name, types in fields])
        values, seen, column = (pa.struct([(name, types[index]) for name, types in fields]) for index in range(3))
        return AvroTypes(values, seen, column, shape)

    def _union(self, schema: list[Any], within: tuple[str, ...]) -> AvroTypes:
        branches = [branch for branch in schema if branch not in ("null", {"type": "null"})]
        if len(branches) == 1:
            types = self.types(branches[0], within)
            paired = self._with_names and self._full_name(branches[0])
            return types._replace(shape=_present(types.shape)) if paired or types.shape else types
        kinds = {
            branch if isinstance(branch, str) else json.dumps(branch, sort_keys=True, default=str)
            for branch in branches
        }
        if not branches:
            return self._primitive("null", {})
        if kinds <= {"int", "long"}:
            return self._primitive("long", {})
        if kinds <= {"float", "double"}:
            return self._primitive("double", {})
        members = [self.types(branch, (*within, "")) for branch in branches]
        pairs = zip(branches, members, strict=True)
        shape = _branch([(self._python(branch), self._full_name(branch), types.shape) for branch, types in pairs])
        return self._struct([(f"member{number}", types) for number, types in enumerate(members)], shape)

    def _full_name(self, schema: Any) -> str:
        if isinstance(schema, str):
            return "" if schema in self._primitives else schema
        return str(schema["name"]) if schema["type"] in ("record", "error", "enum", "fixed") else ""

    def _python(self, schema: Any) -> tuple[type, ...]:
        from decimal import Decimal

        kind = schema if isinstance(schema, str) else schema["type"]
        if isinstance(schema, dict) and schema.get("logicalType") == "decimal":
            return (Decimal,)
        return {
            "boolean": (bool,),
            "int": (int,),
            "long": (int,),
            "float": (float,),
            "double": (float,),
            "string": (str,),
            "bytes": (bytes,),
            "array": (list,),
            "map": (dict,),
        }.get(kind, ())


def _each(shape: Shaper | None) -> Shaper | None:
    return None if shape is None else lambda values: [shape(value) for value in values]


def _each_value(shape: Shaper | None) -> Shaper | None:
    return None if shape is None else lambda values: {name: shape(value) for name, value in values.items()}


def _fields(shapes: Mapping[str, Shaper | None]) -> Shaper | None:
    found = {name: shape for name, shape in shapes.items() if shape is not None}
    if not found:
        return None
    return lambda value: {**value, **{name: shape(value[name]) for name, shape in found.items() if name in value}}


def _present(shape: Shaper | None) -> Shaper:
    """Return a shaper for a value that can be null, or a pair of name and value."""

    def unwrap(value: Any) -> Any:
        if isinstance(value, tuple):
            value = value[1]
        return value if value is None or shape is None else shape(value)

    return unwrap


def _branch(members: list[tuple[tuple[type, ...], str, Shaper | None]]) -> Shaper:
    """Return a function that puts the value of a union into the member of its branch."""

    def choose(value: Any) -> Any:
        if value is None:
            return None
        name, value = value if isinstance(value, tuple) else ("", value)
        for number, (kinds, own_name, shape) in enumerate(members):
            if own_name == name if name or own_name else type(value) in kinds:
                return {f"member{number}": value if shape is None else shape(value)}
        raise ValueError(f"a union has a value of type {type(value).__name__}")

    return choose
