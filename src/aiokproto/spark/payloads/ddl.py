"""From schemas as text to Arrow types: Spark's DDL (``a INT, b ARRAY<STRING>``) and the JSON of a ``StructType``. Pure.

Spark parses DDL in its JVM, which the process that runs a Python data source doesn't have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from aiokproto.errors import ConfigurationError

if TYPE_CHECKING:
    import pyarrow as pa

MAX_DEPTH = 50
"""Maximum nesting depth of types."""

_TOKEN = re.compile(
    r"""\s*(?:(`(?:[^`]|``)*`)|('(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")|([<>(),:])|([^\s<>(),:`'"]+))"""
)
_DECIMAL = re.compile(r"decimal(?:\(\s*(\d{1,2})\s*,\s*(-?\d{1,2})\s*\))?")


def _simple() -> dict[str, Callable[[], pa.DataType]]:
    import pyarrow as pa

    return {
        "boolean": pa.bool_,
        **dict.fromkeys(("tinyint", "byte"), pa.int8),
        **dict.fromkeys(("smallint", "short"), pa.int16),
        **dict.fromkeys(("int", "integer"), pa.int32),
        **dict.fromkeys(("bigint", "long"), pa.int64),
        **dict.fromkeys(("float", "real"), pa.float32),
        "double": pa.float64,
        "string": pa.string,
        "binary": pa.binary,
        "date": pa.date32,
        **dict.fromkeys(("timestamp", "timestamp_ltz"), lambda: pa.timestamp("us", tz="UTC")),
        "timestamp_ntz": lambda: pa.timestamp("us"),
    }


def list_of(element: pa.DataType) -> pa.DataType:
    """Return the Arrow type that Spark uses for an array."""
    import pyarrow as pa

    return pa.list_(pa.field("element", element))


def map_of(key: pa.DataType, value: pa.DataType) -> pa.DataType:
    """Return the Arrow type that Spark uses for a map."""
    import pyarrow as pa

    return pa.map_(key, value)


def decimal(precision: int, scale: int) -> pa.DataType:
    """Return a decimal type.

    Raises:
        ValueError: Spark has no such type.
    """
    import pyarrow as pa

    if not 0 < precision <= 38 or not 0 <= scale <= precision:
        raise ValueError(f"decimal({precision},{scale}): Spark has 1 to 38 digits, and at most as many after the point")
    return pa.decimal128(precision, scale)


def parse_schema(option: str, text: str) -> pa.DataType:
    """Parse the schema of a struct. All fields are nullable, as in Spark's ``from_json``.

    Raises:
        ConfigurationError: The schema is malformed, or has a type that payloads can't have.
    """
    import pyarrow as pa

    try:
        found = _of_json(json.loads(text), 0) if text.lstrip().startswith("{") else _Parser(text).schema()
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        what = f"{error} is missing" if isinstance(error, KeyError) else str(error)
        raise ConfigurationError(
            f"{option} is neither DDL (a INT, b STRING) nor the JSON of a struct: {what}"
        ) from None
    if not pa.types.is_struct(found):
        raise ConfigurationError(f"{option}: expected the fields of a struct, as a INT, b STRING")
    return found


def _named(kind: str) -> pa.DataType:
    if match := _DECIMAL.fullmatch(kind):
        return decimal(int(match[1] or 10), int(match[2] or 0))
    if re.fullmatch(r"(var)?char\(\d+\)", kind):
        kind = "string"
    makers = _simple()
    if kind not in makers:
        raise ValueError(f"type {kind!r}: expected {', '.join(makers)}, decimal(p,s), struct, array or map")
    return makers[kind]()


def _of_json(kind: Any, depth: int) -> pa.DataType:
    import pyarrow as pa

    if depth > MAX_DEPTH:
        raise ValueError(f"more than {MAX_DEPTH} types within each other")
    if isinstance(kind, str):
        return _named(kind)
    if kind["type"] == "struct":
        fields = [(str(entry["name"]), _of_json(entry["type"], depth + 1)) for entry in kind["fields"]]
        return pa.struct(checked_names(fields))
    if kind["type"] == "array":
        return list_of(_of_json(kind["elementType"], depth + 1))
    if kind["type"] == "map":
        return map_of(_of_json(kind["keyType"], depth + 1), _of_json(kind["valueType"], depth + 1))
    raise ValueError(f"type {kind['type']!r}")


def checked_names(fields: list[tuple[str, pa.DataType]]) -> list[tuple[str, pa.DataType]]:
    """Return the fields after a check of their names.

    Raises:
        ValueError: There is no field, or two names differ at most in case, so Spark couldn't tell the fields apart.
    """
    seen: set[str] = set()
    for name, _ in fields:
        if name.lower() in seen:
            raise ValueError(f"field {name!r} is there twice")
        seen.add(name.lower())
    if not fields:
        raise ValueError("a struct without fields")
    return fields


class _Token(NamedTuple):
    kind: str
    text: str


_END = _Token("end", "the end")


class _Parser:
    """Parses DDL. Names of types and keywords can be in any case."""

    def __init__(self, text: str) -> None:
        self._tokens: list[_Token] = []
        position, text = 0, text.rstrip()
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise ValueError(f"a quote does not end at character {position}")
            quoted, literal, mark, word = found.groups()
            if quoted is not None:
                self._tokens.append(_Token("name", quoted[1:-1].replace("``", "`")))
            else:
                kind = "literal" if literal is not None else "mark" if mark is not None else "word"
                self._tokens.append(_Token(kind, literal or mark or word))
            position = found.end()
        self._position = 0

    def schema(self) -> pa.DataType:
        import pyarrow as pa

        first, second = self._peek(), self._peek(1)
        whole = first.text.lower() in ("struct", "array", "map") and second == _Token("mark", "<")
        found = self._type(0) if whole else pa.struct(self._fields(0, _END))
        if self._peek() != _END:
            raise ValueError(f"{self._peek().text!r} follows the schema")
        return found

    def _fields(self, depth: int, end: _Token) -> list[tuple[str, pa.DataType]]:
        fields: list[tuple[str, pa.DataType]] = []
        while self._peek() != end:
            if fields:
                self._take(",")
            name = self._next()
            if name.kind not in ("word", "name"):
                raise ValueError(f"expected the name of a field, got {name.text!r}")
            if self._peek() == _Token("mark", ":"):
                self._position += 1
            fields.append((name.text, self._type(depth + 1)))
            self._attributes()
        return checked_names(fields)

    def _attributes(self) -> None:
        if self._peek().text.lower() == "not":
            self._position += 1
            self._take("null")
        if self._peek().text.lower() == "comment":
            self._position += 1
            if self._next().kind != "literal":
                raise ValueError("expected a quoted text after COMMENT")

    def _type(self, depth: int) -> pa.DataType:
        import pyarrow as pa

        if depth > MAX_DEPTH:
            raise ValueError(f"more than {MAX_DEPTH} types within each other")
        word = self._next()
        kind = word.text.lower()
        if word.kind != "word":
            raise ValueError(f"expected a type, got {word.text!r}")
        if kind in ("struct", "array", "map"):
            self._take("<")
            if kind == "struct":
                found = pa.struct(self._fields(depth, _Token("mark", ">")))
            elif kind == "array":
                found = list_of(self._type(depth + 1))
            else:
                key = self._type(depth + 1)
                self._take(",")
                found = map_of(key, self._type(depth + 1))
            self._take(">")
            return found
        if self._peek() == _Token("mark", "("):
            while (part := self._next()) != _Token("mark", ")"):
                if part == _END:
                    raise ValueError("a parenthesis does not end")
                kind += part.text
            # The scale of decimal(10) is 0.
            kind = kind.replace("dec(", "decimal(").replace("numeric(", "decimal(") + ")"
            kind = re.sub(r"^decimal\((\d+)\)$", r"decimal(\1,0)", kind)
        return _named({"dec": "decimal", "numeric": "decimal"}.get(kind, kind))

    def _peek(self, ahead: int = 0) -> _Token:
        index = self._position + ahead
        return self._tokens[index] if index < len(self._tokens) else _END

    def _next(self) -> _Token:
        found = self._peek()
        self._position += 1
        return found

    def _take(self, text: str) -> None:
        if (found := self._next()).text.lower() != text:
            raise ValueError(f"expected {text!r}, got {found.text!r}")
