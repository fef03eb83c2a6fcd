"""The verb ``show``: a message's fields, types and effective versions, and its grammar."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from aiokproto.codec.documentation import describe, describe_field
from aiokproto.codec.registry import api_name
from aiokproto.codec.schema import FieldSpec, Message, Request, Response, Struct, Versions

_HEADERS = {"RequestHeader": "Request Header", "ResponseHeader": "Response Header"}
_BASIC = {"bool": "BOOLEAN", "recordset": "RECORDS"}
_NULLABLE = ("string", "bytes")
_VARIABLE = ("string", "bytes", "recordset")


class Line(NamedTuple):
    """A field at its path in a message.

    Attributes:
        path: The path, such as ``topics[].partitions[].records``.
        spec: The field's declaration.
        versions: The versions of the message that contain the field. The struct that contains it may narrow them.
        nullable: The versions in which the field can be null.
    """

    path: str
    spec: FieldSpec
    versions: Versions
    nullable: Versions


def common(one: Versions, other: Versions) -> Versions:
    """Return the intersection of two ranges."""
    return Versions(max(one.lowest, other.lowest), min(one.highest, other.highest))


def lines(message: type[Message]) -> Iterator[Line]:
    """Yield all fields in wire order. A struct comes before its fields."""
    return _lines(message, message.versions, "")


def _lines(struct: type[Struct], within: Versions, path: str) -> Iterator[Line]:
    for spec in struct.fields():
        versions = common(spec.versions, within)
        if versions.highest < versions.lowest:
            continue
        field_path = f"{path}{spec.name}{'[]' if spec.array else ''}"
        yield Line(field_path, spec, versions, common(spec.nullable, versions))
        if spec.struct is not None:
            yield from _lines(spec.struct, versions, f"{field_path}.")


def type_name(spec: FieldSpec) -> str:
    """Return the type in the notation of Kafka definitions: ``int32``, ``[]string``, ``[]FetchTopic``, ``records``."""
    single = spec.struct.__name__ if spec.struct is not None else spec.kind.replace("recordset", "records")
    return f"[]{single}" if spec.array else single


def grammar(message: type[Message], version: int) -> str:
    """Return a version in the notation of Kafka's protocol guide, with one rule per line.

    A field in brackets is an array. ``TAG_BUFFER`` stands for the tagged fields. Known tagged fields have their own
    rules, with the tag. Nullable arrays and structs are marked by a comment: their type doesn't show that they're
    nullable.
    """
    flexible = version in message.flexible
    return "\n".join(_rules(_title(message, version), message, version, flexible, "")) + "\n"


def meaning(message: type[Message], version: int) -> str:
    """Return the descriptions of a message and of its fields in a version, one line per field, or ``""`` if there are
    none."""
    here = [line for line in lines(message) if version in line.versions]
    texts = [(line.path, describe_field(line.spec)) for line in here]
    fields = [f"  {path}: {text}" for path, text in texts if text]
    about = [f"  {text}".rstrip() for text in describe(message).splitlines()]
    return "".join(f"{text}\n" for text in [*about, *([""] if about and fields else []), *fields])


def _title(message: type[Message], version: int) -> str:
    if message.__name__ in _HEADERS:
        return f"{_HEADERS[message.__name__]} v{version}"
    if issubclass(message, (Request, Response)):
        name = f"{api_name(message.api_key)} {'Request' if issubclass(message, Request) else 'Response'}"
    else:
        name = message.__name__
    return f"{name} (Version: {version})"


def _rules(name: str, struct: type[Struct], version: int, flexible: bool, note: str, indent: str = "") -> Iterator[str]:
    here = [spec for spec in struct.fields() if version in spec.versions]
    plain = [spec for spec in here if spec.tag is None]
    sequence = [f"[{spec.name}]" if spec.array else spec.name for spec in plain]
    yield f"{indent}{name} => {' '.join([*sequence, *(['TAG_BUFFER'] if flexible else [])])}".rstrip() + note
    for spec in [*plain, *sorted((s for s in here if s.tag is not None), key=lambda s: s.tag or 0)]:
        yield from _rule(spec, version, flexible, indent + "  ")


def _rule(spec: FieldSpec, version: int, flexible: bool, indent: str) -> Iterator[str]:
    null = version in spec.nullable
    name = spec.name if spec.tag is None else f"{spec.name}<tag: {spec.tag}>"
    note = "  ; can be null" if null and (spec.array or spec.struct is not None) else ""
    if spec.struct is not None:
        yield from _rules(name, spec.struct, version, flexible, note, indent)
        return
    text = _BASIC.get(spec.kind, spec.kind.upper())
    if null and not spec.array and spec.kind in _NULLABLE:
        text = f"NULLABLE_{text}"
    if flexible and spec.flexible and spec.kind in _VARIABLE:
        text = f"COMPACT_{text}"
    yield f"{indent}{name} => {text}{note}"
