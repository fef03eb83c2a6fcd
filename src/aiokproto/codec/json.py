"""Messages as JSON, in the form of Kafka's generated converters.

Field names are Kafka's in camelCase, bytes are base64, a uuid is Kafka's url-safe base64 of 22 characters, int64 is a
number, and a tagged field at its default is left out. Unlike in Kafka, unknown tagged fields are kept, as base64 by tag
under ``_unknownTaggedFields``, so a message survives the round trip.
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from functools import cache
from struct import error as StructError
from typing import Any, TypeAlias, TypeVar

from aiokproto.codec.schema import Buffer, FieldSpec, Message, Struct
from aiokproto.codec.wire import FORMATS, packer
from aiokproto.errors import DecodeError, EncodeError

M = TypeVar("M", bound=Message)

RecordsForm: TypeAlias = Callable[[str, Buffer], tuple[str, Any]]
"""Converts a record set to JSON: field name and bytes → key and value."""

RecordsReader: TypeAlias = Callable[[object], bytes]
"""Reads a record set from JSON. Raises DecodeError; its message follows the field's path in the final error."""

UNKNOWN_TAGS = "_unknownTaggedFields"

_SIZE_SUFFIX = "SizeInBytes"
_NOT_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_JSON_TYPES: dict[str, tuple[type, ...]] = {"bool": (bool,), "string": (str,), "float64": (int, float)}
_TAG_MAX = 0xFFFF_FFFF


def records_as_base64(name: str, data: Buffer) -> tuple[str, Any]:
    """Write a record set as base64. :func:`from_json` can read it back."""
    return name, b64encode(data).decode()


def records_as_size(name: str, data: Buffer) -> tuple[str, Any]:
    """Write only the size, under ``<name>SizeInBytes``, as brokers do in their request log."""
    return name + _SIZE_SUFFIX, len(data)


def to_json(message: Message, version: int, *, records: RecordsForm = records_as_base64) -> dict[str, Any]:
    """Return a message as JSON data for :func:`json.dumps`, with the fields of one version.

    Args:
        message: Any request, response, header or payload.
        version: One of its versions.
        records: How to write record sets; by default as base64.

    Raises:
        EncodeError: The version doesn't exist, or can't carry a field's value. Names the field.
    """
    cls = type(message)
    if version not in cls.versions:
        raise EncodeError(f"{cls.__name__} has versions {cls.versions}, not {version}")
    return _Writer(f"{cls.__name__} v{version}", version, records).struct(message, "")


def from_json(message: type[M], data: object, version: int, *, records: RecordsReader | None = None) -> M:
    """Convert JSON data, as returned by :func:`json.loads`, to a message.

    Fields with a default may be missing. Fields that the version lacks are accepted; encoding then ignores or rejects
    them as usual.

    Args:
        message: The message class.
        data: The JSON data.
        version: One of the message's versions.
        records: Reads record sets that aren't base64. By default, these are errors.

    Raises:
        DecodeError: The version doesn't exist, or a field is missing, unknown, or doesn't fit. Names the field.
    """
    if version not in message.versions:
        raise DecodeError(f"{message.__name__} has versions {message.versions}, not {version}")
    made: M = _Reader(f"{message.__name__} v{version}", version, records).struct(message, data, "")
    return made


@cache
def json_name(name: str) -> str:
    """Return a field's name in JSON: ``throttle_time_ms`` → ``throttleTimeMs``."""
    # KRaft is the only word with an inner capital letter, which snake case loses.
    first, *rest = (word.replace("kraft", "KRaft") for word in name.split("_"))
    return first[:1].lower() + first[1:] + "".join(word[:1].upper() + word[1:] for word in rest)


def default_json(spec: FieldSpec) -> Any:
    """Return a field's default. For a struct it's ``{}``, meaning all of its defaults."""
    value = spec.default_value()
    if value is None or spec.array or spec.struct is not None:
        return None if value is None else [] if spec.array else {}
    return _basic_to_json(spec.kind, value)


def _basic_to_json(kind: str, value: Any) -> Any:
    if kind == "uuid":
        return urlsafe_b64encode(value)[:22].decode()
    if kind == "bytes":
        return b64encode(value).decode()
    if kind == "float64" and not math.isfinite(value):
        # JSON has no such numbers; Kafka's converter writes the names as strings.
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


class _Writer:
    def __init__(self, title: str, version: int, records: RecordsForm) -> None:
        self.title = title
        self.version = version
        self.records = records

    def struct(self, struct: Struct, path: str) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for spec in type(struct).fields():
            name = json_name(spec.name)
            value = getattr(struct, spec.name)
            field_path = f"{path}.{name}"
            if self.version not in spec.versions:
                if not spec.ignorable and value != spec.default_value():
                    raise self.bad(
                        field_path,
                        f"{brief(value)} would be lost: this version lacks the field (versions {spec.versions})",
                    )
            elif spec.tag is None or value != spec.default_value():
                key, shown = self.field(spec, name, value, field_path)
                out[key] = shown
        if struct.unknown_tags:
            out[UNKNOWN_TAGS] = {str(tag): b64encode(data).decode() for tag, data in struct.unknown_tags.items()}
        return out

    def field(self, spec: FieldSpec, name: str, value: Any, path: str) -> tuple[str, Any]:
        if value is None:
            if self.version not in spec.nullable and spec.kind != "recordset":
                raise self.bad(path, "None, but the field is not nullable in this version")
            return name, None
        try:
            if spec.kind == "recordset":
                return self.records(name, value)
            if spec.array:
                return name, [self.single(spec, item, f"{path}[{index}]") for index, item in enumerate(value)]
            return name, self.single(spec, value, path)
        except (TypeError, AttributeError):
            raise self.bad(path, f"a {type(value).__name__} does not fit") from None

    def single(self, spec: FieldSpec, value: Any, path: str) -> Any:
        return _basic_to_json(spec.kind, value) if spec.struct is None else self.struct(value, path)

    def bad(self, path: str, why: str) -> EncodeError:
        return EncodeError(f"{self.title}: {path.lstrip('.')}: {why}")


class _Reader:
    def __init__(self, title: str, version: int, records: RecordsReader | None) -> None:
        self.title = title
        self.version = version
        self.records = records

    def struct(self, struct: type[Struct], data: object, path: str) -> Any:
        if not isinstance(data, dict):
            raise self.bad(path, f"expected an object, got {brief(data)}")
        left = dict(data)
        values: dict[str, Any] = {}
        for spec in struct.fields():
            name = json_name(spec.name)
            if name in left:
                values[spec.name] = self.field(spec, left.pop(name), f"{path}.{name}")
            elif spec.kind == "recordset" and name + _SIZE_SUFFIX in left:
                raise self.bad(f"{path}.{name}", "only its size is given, not its bytes")
        made = struct(**values)
        if UNKNOWN_TAGS in left:
            made.unknown_tags = self.tags(left.pop(UNKNOWN_TAGS), f"{path}.{UNKNOWN_TAGS}")
        for name in left:
            raise self.bad(f"{path}.{name}", f"{struct.__name__} has no such field")
        return made

    def field(self, spec: FieldSpec, data: object, path: str) -> Any:
        if data is None:
            can_be_null = self.version in spec.nullable or spec.kind == "recordset" or spec.default is None
            if not can_be_null and self.version in spec.versions:
                raise self.bad(path, "null, but the field is not nullable in this version")
            return None
        if not spec.array:
            return self.single(spec, data, path)
        if not isinstance(data, list):
            raise self.bad(path, f"expected an array, got {brief(data)}")
        return [self.single(spec, item, f"{path}[{index}]") for index, item in enumerate(data)]

    def single(self, spec: FieldSpec, data: Any, path: str) -> Any:
        if spec.struct is not None:
            return self.struct(spec.struct, data, path)
        if spec.kind == "recordset" and self.records is not None and not isinstance(data, str):
            try:
                return self.records(data)
            except DecodeError as error:
                raise DecodeError(f"{self.title}: {path.lstrip('.')}{error}") from None
        if spec.kind in ("bytes", "recordset"):
            return self.base64(data, path)
        if spec.kind == "uuid":
            return self.uuid(data, path)
        if spec.kind == "float64" and isinstance(data, str):
            data = _NOT_FINITE.get(data, data)
        if not _is_a(spec.kind, data):
            raise self.bad(path, f"expected {spec.kind}, got {brief(data)}")
        if spec.kind in FORMATS:
            try:
                packer(FORMATS[spec.kind]).pack(data)
            except (StructError, OverflowError):
                raise self.bad(path, f"{brief(data)} does not fit {spec.kind}") from None
        return float(data) if spec.kind == "float64" else data

    def base64(self, data: object, path: str) -> bytes:
        try:
            return b64decode(data, validate=True)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            raise self.bad(path, f"expected base64, got {brief(data)}") from None

    def uuid(self, data: object, path: str) -> bytes:
        try:
            value = urlsafe_b64decode(f"{data}==") if isinstance(data, str) and len(data) == 22 else b""
        except ValueError:
            value = b""
        if len(value) != 16:
            raise self.bad(path, f"expected a uuid as 22 characters of URL-safe base64, got {brief(data)}")
        return value

    def tags(self, data: object, path: str) -> dict[int, bytes] | None:
        if not isinstance(data, dict):
            raise self.bad(path, f"expected an object, got {brief(data)}")
        tags: dict[int, bytes] = {}
        for key, value in data.items():
            if not (key.isascii() and key.isdecimal() and len(key) <= 10 and int(key) <= _TAG_MAX):
                raise self.bad(path, f"{brief(key)} is not a tag")
            tags[int(key)] = self.base64(value, f"{path}.{key}")
        return dict(sorted(tags.items())) or None

    def bad(self, path: str, why: str) -> DecodeError:
        return DecodeError(f"{self.title}: {path.lstrip('.') or 'body'}: {why}")


def _is_a(kind: str, data: object) -> bool:
    wanted = _JSON_TYPES.get(kind, (int,))
    # A bool is an int in Python, but true isn't a number in JSON.
    return isinstance(data, wanted) and (kind == "bool" or not isinstance(data, bool))


def brief(value: object) -> str:
    """Format a JSON value for error messages."""
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "an array"
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
