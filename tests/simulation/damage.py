"""Messages with values that no client or broker sends."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from aiokproto.codec.schema import FieldSpec, Struct

_EDGES = (7, 15, 31, 63)
_NUMBERS = (-2, -1, 0, 1, 2, 1000, 65_536, *(-(1 << bits) for bits in _EDGES), *((1 << bits) - 1 for bits in _EDGES))
_TEXTS = (
    "",
    "\0",
    "a b\r\nc",
    "x" * 30_000,
    "ä" * 100,
    "localhost:0",
    "127.0.0.1",
    "t",
    "(a+)+$",
    "__consumer_offsets",
)
_COPIES = 200


def places(struct: Struct) -> Iterator[tuple[Struct, str]]:
    """Every field of a message and of the structs in it."""
    for spec in struct.fields():
        value = getattr(struct, spec.name)
        yield struct, spec.name
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Struct):
                yield from places(item)


def change_fields(random: Random, message: Struct) -> None:
    """Change up to three fields."""
    for _ in range(random.randrange(1, 4)):
        found = list(places(message))
        # A message may have no fields.
        if found:
            owner, name = random.choice(found)
            setattr(owner, name, _changed(random, getattr(owner, name)))


def _changed(random: Random, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return random.choice(_NUMBERS)
    if isinstance(value, str):
        return random.choice(_TEXTS)
    if isinstance(value, bytes | memoryview):
        return random.randbytes(len(value)) if random.random() < 0.5 else bytes(value)[: len(value) // 2]
    if isinstance(value, list):
        return random.choice([[], value * 2, value * (_COPIES // (len(value) or 1)), value[:1]])
    return value


def random_message(random: Random, kind: type[Struct], depth: int = 0) -> Any:
    """A message whose fields have any values."""
    message = kind()
    for spec in kind.fields():
        if random.random() < 0.8:
            setattr(message, spec.name, _random_value(random, spec, depth))
    return message


def _random_value(random: Random, spec: FieldSpec, depth: int) -> Any:
    if spec.array:
        count = random.choice([0, 1, 1, 2, 3, 300 if depth == 0 else 3])
        return [_random_item(random, spec, depth) for _ in range(count)]
    return _random_item(random, spec, depth)


def _random_item(random: Random, spec: FieldSpec, depth: int) -> Any:
    if spec.struct is not None:
        return random_message(random, spec.struct, depth + 1)
    kind = spec.kind
    if kind == "bool":
        return random.random() < 0.5
    if kind.startswith(("int", "uint")):
        unsigned, bits = kind.startswith("u"), int(kind.lstrip("uint"))
        low, high = (0, (1 << bits) - 1) if unsigned else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
        return min(max(random.choice(_NUMBERS), low), high)
    if kind == "float64":
        return random.choice([0.0, -1.0, 1e308, float("nan"), float("inf")])
    if kind == "string":
        return random.choice(_TEXTS)
    if kind == "uuid":
        return random.randbytes(16)
    return random.randbytes(random.choice([0, 1, 60, 1000]))
