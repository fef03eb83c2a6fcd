"""Draft the declaration of a new message, or of the fields that a release adds to one that is declared here.

A definition says everything about the bytes. It does not say which broker a request goes to, and its texts are not
ours: the draft has blanks in both places. Until they are filled in, the class is refused when it is imported (a route)
or a test names the place (a text).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from aiokproto.codec.schema import BASIC_TYPES, Message, Role, Struct, Versions
from aiokproto.codec.wire import ZERO_UUID
from tools.schema.definitions import Definition
from tools.schema.names import snake
from tools.schema.texts import BLANK, needs_text
from tools.schema.views import STRUCT, is_true, kafka_default

Json = dict[str, Any]

ROLES = {role.value[:1].lower() + role.value[1:]: role for role in Role}
"""``entityType`` → the role."""

UNMARKED_ROLES = {
    ("uuid", "topic_id"): Role.TOPIC_ID,
    ("int32", "partition"): Role.PARTITION_INDEX,
    ("int32", "partition_index"): Role.PARTITION_INDEX,
    ("int32", "partitions"): Role.PARTITION_INDEX,
    ("int32", "partition_indexes"): Role.PARTITION_INDEX,
    ("string", "group_id"): Role.GROUP_ID,
}
"""Type and name → the role of fields whose definition has no ``entityType``."""

SCHEMA_NAMES = {"Payload", "Request", "Response", "Struct", "field", *BASIC_TYPES, *(role.value for role in Role)}


class DraftedStruct(NamedTuple):
    """A nested struct, and the versions of its message in which it is used."""

    name: str
    fields: list[Json]
    versions: Versions


def draft_module(definitions: Iterable[Definition]) -> str:
    """Return the module that declares these messages: an API's response and request, or related payloads.

    Formatting is left to `ruff format`.
    """
    ordered = sorted(definitions, key=lambda it: it.json["type"] == "request")
    names = _struct_names(ordered)
    blocks: dict[str, None] = {}
    for definition in ordered:
        for struct in _structs(definition).values():
            name = names[definition.name, struct.name]
            blocks[_class(f"class {name}(Struct):", BLANK, _fields(definition, struct, names))] = None
        fields = _fields(definition, _whole(definition), names)
        blocks[_class(_header(definition), _about(definition), fields)] = None
    text = "\n\n\n".join(blocks)
    return f'"""{_title(ordered)}"""\n\n{_imports(text)}\n\n\n{text}\n'


def draft_fields(ours: type[Message], definition: Definition) -> str:
    """Return what the definition has and our declaration lacks, struct by struct; empty if it lacks nothing."""
    declared = {definition.name: ours, **_declared_structs(ours, definition)}
    names = {(definition.name, name): struct.__name__ for name, struct in declared.items()}
    parts: list[str] = []
    for drafted in (*_structs(definition).values(), _whole(definition)):
        struct = declared.get(drafted.name)
        if struct is None:
            parts.append(_class(f"class {drafted.name}(Struct):", BLANK, _fields(definition, drafted, names)))
            continue
        known = {spec.name for spec in struct.fields()}
        added = [one for one in drafted.fields if snake(one["name"]) not in known]
        if added:
            lines = _fields(definition, drafted._replace(fields=added), names)
            parts.append("\n".join([f"# {struct.__name__}", *lines]))
    return "\n\n\n".join(parts)


def _structs(definition: Definition) -> dict[str, DraftedStruct]:
    """Return the structs of a message by name, each after those that it contains."""
    found: dict[str, DraftedStruct] = {}

    def collect(fields: list[Json], used: Versions) -> None:
        for one in fields:
            inner = definition.struct_fields(one)
            if inner is None:
                continue
            name = one["type"].removeprefix("[]")
            versions = _common(_versions(one), used)
            if name in found:
                versions = _hull(found[name].versions, versions)
            collect(inner, versions)
            found[name] = DraftedStruct(name, inner, versions)

    collect(definition.json["fields"], definition.versions)
    return found


def _struct_names(definitions: list[Definition]) -> dict[tuple[str, str], str]:
    """Return the class name of each (message, struct): two that differ have their message's name before their own."""
    shapes: dict[str, set[str]] = {}
    structs = [(it, struct) for it in definitions for struct in _structs(it).values()]
    for definition, struct in structs:
        shapes.setdefault(struct.name, set()).add(repr((struct.versions, _shape(definition, struct.fields))))
    taken = {it.name for it in definitions}
    return {
        (it.name, struct.name): it.name + struct.name
        if len(shapes[struct.name]) > 1 or struct.name in taken
        else struct.name
        for it, struct in structs
    }


def _shape(definition: Definition, fields: list[Json]) -> list[object]:
    """Return what two structs have in common that can be one class: everything but their texts."""
    return [
        (
            {name: value for name, value in one.items() if name not in ("about", "fields")},
            _shape(definition, definition.struct_fields(one) or []),
        )
        for one in fields
    ]


def _declared_structs(message: type[Message], definition: Definition) -> dict[str, type[Struct]]:
    """Return the structs inside a declaration by the names that the definition has for them."""
    found: dict[str, type[Struct]] = {}

    def collect(struct: type[Struct], fields: list[Json]) -> None:
        specs = {spec.name: spec for spec in struct.fields()}
        for one in fields:
            spec, inner = specs.get(snake(one["name"])), definition.struct_fields(one)
            if spec is not None and spec.struct is not None and inner is not None:
                found[one["type"].removeprefix("[]")] = spec.struct
                collect(spec.struct, inner)

    collect(message, definition.json["fields"])
    return found


def _whole(definition: Definition) -> DraftedStruct:
    return DraftedStruct(definition.name, definition.json["fields"], definition.versions)


def _header(definition: Definition) -> str:
    kind, name = definition.json["type"], definition.name
    bases = {"request": f"Request[{name.removesuffix('Request')}Response]", "response": "Response"}
    keywords = [f'versions="{definition.json["validVersions"]}"']
    if kind in bases:
        keywords.insert(0, f"key={definition.json['apiKey']}")
    if definition.json.get("flexibleVersions", "none") != "none":
        keywords.append(f'flexible="{definition.json["flexibleVersions"]}"')
    if is_true(definition.json.get("latestVersionUnstable")):
        keywords.append(f'unstable="{definition.versions.highest}"')
    if kind == "request":
        keywords.append("route=...")
    return f"class {name}({bases.get(kind, 'Payload')}, {', '.join(keywords)}):"


def _title(definitions: list[Definition]) -> str:
    api = definitions[-1]
    if api.json["type"] != "request":
        return BLANK
    return f"{api.name.removesuffix('Request')} (ApiKey {api.json['apiKey']}): {BLANK}."


def _about(definition: Definition) -> str:
    request = f"{BLANK}\n\n    Sent by {BLANK} to {BLANK}.\n\n    Errors: {BLANK}.\n    "
    response = f"{BLANK} Errors: see `{definition.name.removesuffix('Response')}Request`."
    return {"request": request, "response": response}.get(definition.json["type"], BLANK)


def _class(header: str, about: str, fields: Iterable[str]) -> str:
    return "\n".join([header, f'    """{about}"""', "", *(f"    {line}" for line in fields)]).rstrip()


def _fields(definition: Definition, struct: DraftedStruct, names: dict[tuple[str, str], str]) -> Iterator[str]:
    for one in struct.fields:
        name = snake(one["name"])
        kind: str = one["type"].removeprefix("[]")
        inner = definition.struct_fields(one) is not None
        role = None if inner else ROLES.get(one.get("entityType", ""), UNMARKED_ROLES.get((kind, name)))
        annotation = kind
        if inner:
            annotation = names.get((definition.name, kind), kind)
        elif role is not None:
            annotation = role.value
        yield _field(one, struct.versions, annotation.replace("records", "recordset"), struct=inner)
        if not inner and needs_text(name, role, tagged="tag" in one):
            yield f'"""{BLANK}"""'


def _field(one: Json, used: Versions, kind: str, *, struct: bool) -> str:
    array = one["type"].startswith("[]")
    written = one.get("versions") or one["taggedVersions"]
    versions = _common(_versions(one), used)
    everywhere = versions.covers(used)
    nullable = _common(Versions.parse(one.get("nullableVersions", "none")), versions)
    default = _default(one, kind, array=array, struct=struct)
    arguments = [] if everywhere else [f'"{written}"']
    if not _empty(nullable) and not nullable.covers(versions):
        arguments.append(f'nullable="{one["nullableVersions"]}"')
    if "tag" in one:
        arguments.append(f"tag={int(one['tag'])}")
    arguments.append(default)
    if is_true(one.get("ignorable")):
        arguments.append("ignorable=True")
    if one.get("flexibleVersions") == "none":
        arguments.append("flexible=False")
    plain = arguments == [default] and default.startswith("default=")
    value = default.removeprefix("default=") if plain else f"field({', '.join(arguments)})"
    annotation = f"list[{kind}]" if array else kind
    return f"{snake(one['name'])}: {annotation}{'' if _empty(nullable) else ' | None'} = {value}"


def _default(one: Json, kind: str, *, array: bool, struct: bool) -> str:
    value = kafka_default(STRUCT if struct else one["type"].removeprefix("[]"), array, one.get("default"))
    if value is None:
        return "default=None"
    if array:
        return "factory=list"
    if struct:
        return f"factory={kind}"
    return "default=ZERO_UUID" if value == ZERO_UUID else f"default={value!r}"


def _imports(text: str) -> str:
    """Return the import lines for the names in a module's text."""
    used = set(re.findall(r"\b\w+\b", text))
    if "route=..." in text:
        used.add("Route")
    # As ruff sorts them.
    names = sorted(used & (SCHEMA_NAMES | {"Route"}) - {"bool", "bytes"}, key=lambda name: (name[0].islower(), name))
    lines = ["from __future__ import annotations", "", f"from aiokproto.codec.schema import {', '.join(names)}"]
    if "ZERO_UUID" in used:
        lines.append("from aiokproto.codec.wire import ZERO_UUID")
    return "\n".join(lines)


def _versions(one: Json) -> Versions:
    return Versions.parse(one.get("versions") or one["taggedVersions"])


def _empty(versions: Versions) -> bool:
    return versions.highest < versions.lowest


def _common(one: Versions, other: Versions) -> Versions:
    return Versions(max(one.lowest, other.lowest), min(one.highest, other.highest))


def _hull(one: Versions, other: Versions) -> Versions:
    if _empty(one) or _empty(other):
        return other if _empty(one) else one
    return Versions(min(one.lowest, other.lowest), max(one.highest, other.highest))
