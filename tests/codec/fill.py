"""Fill any message with values, by its own schema."""

from __future__ import annotations

import random
from typing import Any

from aiokproto.codec.registry import api_keys, lookup, payload_names, request, response
from aiokproto.codec.schema import FieldSpec, Message, Struct

_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_UNSIGNED = {"uint16": 16, "uint32": 32}


def all_messages() -> list[type[Message]]:
    """Return every request, response, header and payload."""
    apis: list[type[Message]] = [pick(key) for key in api_keys() for pick in (request, response)]
    return apis + [lookup(name) for name in payload_names()]


def all_versions() -> list[tuple[type[Message], int]]:
    """Return every message with each of its versions."""
    return [(m, v) for m in all_messages() for v in range(m.versions.lowest, m.versions.highest + 1)]


def fill(message: type[Message], version: int, seed: int) -> Message:
    """Return an instance with random values in all fields that the version has."""
    rng = random.Random(f"{message.__name__} {version} {seed}")
    made: Message = _Filler(rng, version, version in message.flexible).struct(message)
    return made


class _Filler:
    def __init__(self, rng: random.Random, version: int, flexible: bool) -> None:
        self.rng = rng
        self.version = version
        self.flexible = flexible

    def struct(self, struct: type[Struct]) -> Any:
        values = {}
        for spec in struct.fields():
            if self.version in spec.versions:
                values[spec.name] = self.value(spec)
        made = struct(**values)
        if self.flexible and self.rng.random() < 0.3:
            made.unknown_tags = {tag: self.rng.randbytes(3) for tag in self.rng.sample((100, 128, 20_000), 2)}
            made.unknown_tags = dict(sorted(made.unknown_tags.items()))
        return made

    def value(self, spec: FieldSpec) -> Any:
        if self.version in spec.nullable and self.rng.random() < 0.25:
            return None
        if spec.array:
            return [self.single(spec) for _ in range(self.rng.choice((0, 1, 1, 2, 3)))]
        return self.single(spec)

    def single(self, spec: FieldSpec) -> Any:
        rng = self.rng
        if spec.struct is not None:
            return self.struct(spec.struct)
        if spec.kind in _BITS:
            bits = _BITS[spec.kind]
            return rng.choice((0, 1, -1, 2**bits - 1, -(2**bits), rng.getrandbits(bits)))
        if spec.kind in _UNSIGNED:
            return rng.choice((0, 2 ** _UNSIGNED[spec.kind] - 1, rng.getrandbits(_UNSIGNED[spec.kind])))
        return self.other(spec.kind)

    def other(self, kind: str) -> Any:
        rng = self.rng
        if kind == "bool":
            return rng.random() < 0.5
        if kind == "float64":
            return rng.choice((0.0, -1.5, rng.random()))
        if kind == "uuid":
            return rng.randbytes(16)
        if kind == "string":
            return rng.choice(("", "a", "topic-ü", "x" * 130))
        return rng.choice((b"", rng.randbytes(5), rng.randbytes(200)))
