"""Groups of the newer protocols in the offsets topic: each record an int16, type or version, and then the payload."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import TypeVar

from aiokproto.codec.schema import Payload

_INT16 = struct.Struct(">h")
_VERSION = 0
"""Version of all keys and values: they have only had one."""

V = TypeVar("V", bound=Payload)

Image = dict[bytes, bytes]
"""A group's records: what a reader of the topic knows of it."""


class Keys:
    """The keys of one kind of group, by record type."""

    def __init__(self, types: Mapping[int, type[Payload]]) -> None:
        self._types = types
        self._numbers = {key: number for number, key in types.items()}

    def prefix(self, kind: type[Payload]) -> bytes:
        """What the keys of a type begin with."""
        return _INT16.pack(self._numbers[kind])

    def encode(self, key: Payload) -> bytes:
        """A record's key."""
        return self.prefix(type(key)) + key.encode(_VERSION)

    def decode(self, key: bytes) -> Payload | None:
        """What a record is about; None if it is about something else."""
        found = self._types.get(_INT16.unpack_from(key)[0])
        return found.decode(key[_INT16.size :], _VERSION) if found is not None else None

    def group_of(self, key: bytes) -> str | None:
        """The group that a record is about; None if it is about something else."""
        return getattr(self.decode(key), "group_id", None)


def encode_value(value: Payload) -> bytes:
    """A record's value."""
    return _INT16.pack(_VERSION) + value.encode(_VERSION)


def decode_value(kind: type[V], value: bytes) -> V:
    """A record's value, of a type that its key tells."""
    return kind.decode(value[_INT16.size :], _INT16.unpack_from(value)[0])


def update(written: Image, current: Mapping[bytes, bytes | None]) -> list[tuple[bytes, bytes | None]]:
    """The records that bring what is written up to date, and ``written`` with them."""
    fresh = [(key, value) for key, value in current.items() if written.get(key) != value]
    for key, value in fresh:
        if value is None:
            del written[key]
        else:
            written[key] = value
    return fresh
