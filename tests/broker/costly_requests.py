"""Requests of every API with any number of names, made from the declarations of the messages."""

from __future__ import annotations

from itertools import count
from typing import Any, Literal

from aiokproto.codec import registry
from aiokproto.codec.schema import FieldSpec, Request, Role, Struct

Shape = Literal["wide", "deep", "empty"]
"""Which lists have the many items: the outermost lists, the innermost lists, or the outermost with empty items."""

SHAPES: tuple[Shape, ...] = ("wide", "deep", "empty")

VALUES: dict[str, Any] = {
    "resource_type": 2,
    "resource_type_filter": 2,
    "resource_pattern_type": 3,
    "pattern_type_filter": 3,
    "operation": 3,
    "permission_type": 3,
    "principal": "User:nobody",
    "principal_filter": "User:nobody",
    "principal_type": "User",
    "entity_type": "user",
    "validate_only": True,
    "allow_auto_topic_creation": False,
    "num_partitions": 1,
    "replication_factor": 1,
    "timeout_ms": 1,
    "session_timeout_ms": 10_000,
    "rebalance_timeout_ms": 10_000,
    "transaction_timeout_ms": 1_000,
    "protocol_type": "consumer",
    "acks": 1,
    "iterations": 4096,
    "mechanism": 1,
    "max_wait_ms": 0,
    "isolation_level": 0,
    "member_epoch": 0,
    "generation_id": -1,
    "retention_time_ms": -1,
    "type": 0,
    "subscribed_topic_regex": "a.*",
    "transactional_id_pattern": "a.*",
}
"""Values with which a handler does more than refuse the request."""

_LISTS_OF_A_MEMBER = {"topic_partitions", "active_tasks", "standby_tasks", "warmup_tasks"}
"""Lists that must be empty to join."""


def request(api_key: int, version: int, number: int, shape: Shape, salt: str = "") -> Request[Any]:
    """Return a request with ``number`` items in its lists. ``salt`` is part of all names."""
    made: Request[Any] = _Maker(version, number, shape, salt).struct(registry.request(api_key), outside=True)
    return made


class _Maker:
    def __init__(self, version: int, number: int, shape: Shape, salt: str) -> None:
        self._version = version
        self._number = number
        self._shape = shape
        self._salt = salt
        self._names = count()

    def struct(self, kind: type[Struct], *, outside: bool) -> Any:
        made: dict[str, Any] = {}
        for spec in kind.fields():
            if self._version not in spec.versions:
                continue
            if spec.array:
                made[spec.name] = self._items(spec, outside)
            elif self._shape != "empty" or outside:
                made[spec.name] = self._value(spec)
        return kind(**made)

    def _items(self, spec: FieldSpec, outside: bool) -> list[Any]:
        if spec.name in _LISTS_OF_A_MEMBER and outside:
            return []
        innermost = spec.struct is None or not any(
            inner.array and self._version in inner.versions for inner in spec.struct.fields()
        )
        if self._shape == "empty" and not outside:
            return []
        many = innermost if self._shape == "deep" else outside
        return [self._value(spec.item, spec.role, number) for number in range(self._number if many else 1)]

    def _value(self, spec: FieldSpec, role: Role | None = None, number: int = 0) -> Any:
        if spec.name == "cursor":
            # A null cursor means the first item.
            return None
        if spec.struct is not None:
            return self.struct(spec.struct, outside=False)
        role = role or spec.role
        if role is None and spec.name in VALUES and isinstance(VALUES[spec.name], str) == (spec.kind == "string"):
            return VALUES[spec.name]
        if spec.name == "mechanism" and spec.kind == "string":
            return "PLAIN"
        if spec.kind == "string":
            return f"n{self._salt}{next(self._names)}"
        if role is Role.PARTITION_INDEX:
            return number
        if role is Role.TOPIC_ID:
            return f"{self._salt}{next(self._names)}".encode().ljust(16, b"x")[:16]
        if spec.kind == "bytes":
            return b"x"
        if spec.kind == "recordset":
            return None
        return spec.default_value() if spec.default is not None and repr(spec.default) != "MISSING" else 0
