"""Columns of an output, and whether files that have them can be read together. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

Columns = Mapping[str, str]
"""Names of columns, each with its type: Spark's JSON, without what does not matter to who reads files together."""


def columns_of(schema: Mapping[str, Any]) -> dict[str, str]:
    """The columns of a schema, given as Spark's JSON has it."""
    return {field["name"]: json.dumps(_reduced(field["type"])) for field in schema["fields"]}


def _reduced(kind: Any) -> Any:
    """A type without nullability, metadata and names of classes."""
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        fields = [{"name": field["name"], "type": _reduced(field["type"])} for field in kind["fields"]]
        return {"type": "struct", "fields": fields}
    if kind["type"] == "udt":
        return _reduced(kind["sqlType"])
    inner = ("elementType", "keyType", "valueType")
    return {"type": kind["type"], **{name: _reduced(kind[name]) for name in inner if name in kind}}


def misfit(kind: str, others: Iterable[str]) -> str | None:
    """One of the types that cannot be read together with this one; None if all can.

    Spark widens nothing: an int and a bigint do not fit. Structs may differ in the fields they have.
    """
    mine = json.loads(kind)
    return next((other for other in others if not _fit(mine, json.loads(other))), None)


def _fit(one: Any, other: Any) -> bool:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return bool(one == other)
    if one["type"] != other["type"]:
        return False
    if one["type"] == "struct":
        fields = {field["name"]: field["type"] for field in other["fields"]}
        return all(_fit(field["type"], fields[field["name"]]) for field in one["fields"] if field["name"] in fields)
    return all(_fit(one[name], other[name]) for name in one if name != "type")


def describe(kind: str) -> str:
    """A type for messages, in the words of SQL."""
    return _words(json.loads(kind))


def _words(kind: Any) -> str:
    if not isinstance(kind, dict):
        return {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}.get(kind, str(kind))
    if kind["type"] == "struct":
        fields = (f"{field['name']}: {_words(field['type'])}" for field in kind["fields"])
        return f"struct<{', '.join(fields)}>"
    inner = [_words(value) for name, value in kind.items() if name != "type"]
    return f"{kind['type']}<{', '.join(inner)}>"
