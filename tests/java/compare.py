"""A decoded message beside Java's JSON of it."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from aiokproto.codec.schema import FieldSpec, Message, Struct
from tools.schema.names import snake


class Comparison:
    """Compares messages of one version. ``seen`` collects their values: (field's path, "null" | "set" | "plain").

    ``old_fields`` maps Java's names of fields to ours where they differ.
    """

    def __init__(self, version: int, old_fields: Mapping[str, str], seen: set[tuple[str, str]]) -> None:
        self._version = version
        self._old_fields = old_fields
        self._seen = seen

    def differences(self, struct: Struct, values: dict[str, Any], path: str) -> Iterator[str]:
        """Yield a line for each value that is not Java's."""
        rest = {self._name(name): value for name, value in values.items()}
        for spec in type(struct).fields():
            if self._version not in spec.versions:
                continue
            where, ours = f"{path}.{spec.name}", getattr(struct, spec.name)
            self._seen.add((where, kind_of_value(spec, ours)))
            size = f"{spec.name}_size_in_bytes"
            if spec.name in rest:
                yield from self._field(spec, ours, rest.pop(spec.name), where)
            elif size in rest:
                # Java's JSON has only the size of a record set. Encoding shows whether the bytes are the same.
                if (java := rest.pop(size)) != len(ours):
                    yield f"{where}: ours has {len(ours)} bytes, Java's {java}"
            elif spec.tag is None:
                yield f"{where}: Java has no such field"
            elif ours != spec.default_value():
                # The JSON leaves out the tagged fields that are at their default.
                yield f"{where}: ours {ours!r}, Java's the default {spec.default_value()!r}"
        for name in rest:
            yield f"{path}.{name}: we have no such field"

    def _name(self, java: str) -> str:
        name = snake(java)
        return self._old_fields.get(name, name)

    def _field(self, spec: FieldSpec, ours: Any, java: Any, where: str) -> Iterator[str]:
        if ours is None or java is None:
            if ours is not java:
                yield f"{where}: ours {ours!r}, Java's {java!r}"
        elif not spec.array:
            yield from self._single(spec, ours, java, where)
        elif len(ours) != len(java):
            yield f"{where}: ours has {len(ours)} elements, Java's {len(java)}"
        else:
            for one, other in zip(ours, java, strict=True):
                yield from self._single(spec, one, other, f"{where}[]")

    def _single(self, spec: FieldSpec, ours: Any, java: Any, where: str) -> Iterator[str]:
        if spec.struct is not None:
            yield from self.differences(ours, java, where)
        elif type(ours) is not type(value := _from_json(spec.kind, java)) or ours != value:
            yield f"{where}: ours {ours!r}, Java's {value!r}"


def kind_of_value(spec: FieldSpec, value: Any) -> str:
    """Return what a value shows about its field. A default value might as well not have been read."""
    if value is None:
        return "null"
    return "plain" if value == spec.default_value() else "set"


def unknown_tags(struct: Struct) -> Iterator[dict[int, bytes]]:
    """Yield the unknown tagged fields of each struct that has any, outer structs first."""
    if struct.unknown_tags:
        yield struct.unknown_tags
    for spec in type(struct).fields():
        value = getattr(struct, spec.name)
        if spec.struct is not None and value is not None:
            for inner in value if spec.array else [value]:
                yield from unknown_tags(inner)


def to_be_seen(message: type[Message], version: int) -> Iterator[tuple[str, str]]:
    """Return what vectors must have shown of a message-version: every field set, and null where possible."""
    yield from _to_be_seen(message, version, message.__name__)


def _to_be_seen(struct: type[Struct], version: int, path: str) -> Iterator[tuple[str, str]]:
    for spec in struct.fields():
        if version in spec.versions:
            where = f"{path}.{spec.name}"
            yield where, "set"
            if version in spec.nullable:
                yield where, "null"
            if spec.struct is not None:
                yield from _to_be_seen(spec.struct, version, f"{where}[]" if spec.array else where)


def _from_json(kind: str, java: Any) -> Any:
    if kind == "bytes":
        return base64.b64decode(java)
    if kind == "uuid":
        return base64.urlsafe_b64decode(java + "==")
    return java
