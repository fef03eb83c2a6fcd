"""A field in one version, as Kafka defines it and as it is declared here, in one form that can be compared."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from aiokproto.codec.schema import FieldSpec, Struct, Versions
from aiokproto.codec.wire import ZERO_UUID
from tools.schema.definitions import Definition
from tools.schema.names import snake

INTEGERS = {"int8", "int16", "int32", "int64", "uint16", "uint32"}
STRUCT = "a struct"


class View(NamedTuple):
    """What must be the same on both sides, and where the fields of a struct are."""

    type: str
    nullable: bool
    tag: int | None
    default: Any
    flexible: bool
    entity: str | None
    inner: Any


Views = dict[str, View]


def kafka_views(
    definition: Definition, fields: list[dict[str, Any]], version: int, *, flexible: bool
) -> tuple[Views, dict[str, bool]]:
    """The fields that the version has, in wire order; and of those it lacks, which are ignorable."""
    views: Views = {}
    absent: dict[str, bool] = {}
    for field in fields:
        name = snake(field["name"])
        # A tagged field without versions of its own has those in which it is tagged.
        if version in Versions.parse(field.get("versions") or field["taggedVersions"]):
            views[name] = _kafka_view(definition, field, version, flexible)
        else:
            absent[name] = is_true(field.get("ignorable"))
    return _in_order(views), absent


def our_views(struct: type[Struct], version: int, *, flexible: bool) -> tuple[Views, dict[str, bool]]:
    """As `kafka_views`, of a class declared here."""
    views = {spec.name: _our_view(spec, version, flexible) for spec in struct.fields() if version in spec.versions}
    absent = {spec.name: spec.ignorable for spec in struct.fields() if version not in spec.versions}
    return _in_order(views), absent


def differences(ours: View, kafka: View) -> Iterator[str]:
    """Yield what differs, in words."""
    for what in ("type", "nullable", "tag", "default", "flexible"):
        here, there = getattr(ours, what), getattr(kafka, what)
        if (type(here), here) != (type(there), there):
            yield f"{what} is {here!r}, Kafka's {there!r}"
    # Kafka's definitions name entities incompletely; ours name them in every field and version.
    if kafka.entity not in (None, ours.entity):
        yield f"entity is {ours.entity!r}, Kafka's {kafka.entity!r}"


def is_true(value: Any) -> bool:
    """Definitions spell a truth as JSON does, or as text."""
    return str(value).lower() == "true"


def _in_order(views: Views) -> Views:
    """Tagged fields follow the others, by tag: where they are declared says nothing about the bytes."""
    return dict(sorted(views.items(), key=lambda item: -1 if item[1].tag is None else item[1].tag))


def _kafka_view(definition: Definition, field: dict[str, Any], version: int, flexible: bool) -> View:
    inner = definition.struct_fields(field)
    array = field["type"].startswith("[]")
    kind = STRUCT if inner is not None else field["type"].removeprefix("[]")
    tagged = "tag" in field and version in Versions.parse(field.get("taggedVersions", "none"))
    return View(
        type=f"list of {kind}" if array else kind,
        nullable=version in Versions.parse(field.get("nullableVersions", "none")),
        tag=int(field["tag"]) if tagged else None,
        default=kafka_default(kind, array, field.get("default")),
        flexible=not flexible or version in Versions.parse(field.get("flexibleVersions", "0+")),
        entity=field.get("entityType"),
        inner=inner,
    )


def kafka_default(kind: str, array: bool, text: Any) -> Any:
    """Return a field's default: the definition has it as text or as a JSON value; without one it is Kafka's zero."""
    if text == "null":
        return None
    if array:
        return []
    if kind in INTEGERS:
        return int(str(text), 0) if text not in (None, "") else 0
    if kind == "bool":
        return is_true(text)
    if kind == "float64":
        return float(text or 0)
    zeros = {STRUCT: STRUCT, "uuid": ZERO_UUID, "bytes": b"", "records": None}
    return zeros.get(kind, text or "")


def _our_view(spec: FieldSpec, version: int, flexible: bool) -> View:
    kind = STRUCT if spec.struct is not None else {"recordset": "records"}.get(spec.kind, spec.kind)
    default = spec.default_value()
    return View(
        type=f"list of {kind}" if spec.array else kind,
        nullable=version in spec.nullable,
        tag=spec.tag,
        default=STRUCT if isinstance(default, Struct) else default,
        flexible=not flexible or spec.flexible,
        entity=None if spec.role is None else spec.role.value[:1].lower() + spec.role.value[1:],
        inner=spec.struct,
    )
