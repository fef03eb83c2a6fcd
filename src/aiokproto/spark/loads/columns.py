"""Columns of an output, and the check that Spark can read their files together. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

Columns = Mapping[str, str]
"""The type of each column, by name: Spark's JSON, reduced to the parts that must match among files."""


def columns_of(schema: Mapping[str, Any]) -> dict[str, str]:
    """Return the columns of a schema in Spark's JSON."""
    return {field["name"]: json.dumps(_reduced(field["type"])) for field in schema["fields"]}


def _reduced(kind: Any) -> Any:
    """Return a type without nullability, metadata and class names."""
    if not isinstance(kind, dict):
        return kind
    if kind["type"] == "struct":
        fields = [{"name": field["name"], "type": _reduced(field["type"])} for field in kind["fields"]]
        return {"type": "struct", "fields": fields}
    if kind["type"] == "udt":
        return _reduced(kind["sqlType"])
    inner = ("elementType", "keyType", "valueType")
    return {"type": kind["type"], **{name: _reduced(kind[name]) for name in inner if name in kind}}


def incompatible_type(kind: str, others: Iterable[str]) -> str | None:
    """Return one of the types that Spark can't read together with this one; None if there is no such type.

    Spark doesn't widen types, so int and bigint are incompatible. Structs may have different fields.
    """
    mine = json.loads(kind)
    return next((other for other in others if not _compatible(mine, json.loads(other))), None)


def _compatible(one: Any, other: Any) -> bool:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return bool(one == other)
    if one["type"] != other["type"]:
        return False
    if one["type"] == "struct":
        fields = {field["name"]: field["type"] for field in other["fields"]}
        return all(
            _compatible(field["type"], fields[field["name"]]) for field in one["fields"] if field["name"] in fields
        )
    return all(_compatible(one[name], other[name]) for name in one if name != "type")


def describe(kind: str) -> str:
    """Return the SQL name of a type, for messages."""
    return _sql(json.loads(kind))


def _sql(kind: Any) -> str:
    if not isinstance(kind, dict):
        return {"integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint"}.get(kind, str(kind))
    if kind["type"] == "struct":
        fields = (f"{field['name']}: {_sql(field['type'])}" for field in kind["fields"])
        return f"struct<{', '.join(fields)}>"
    inner = [_sql(value) for name, value in kind.items() if name != "type"]
    return f"{kind['type']}<{', '.join(inner)}>"
