"""Wire primitives: fixed-size packers, varints, and the limits that hostile bytes meet.

The compiled codecs (see ``compiler``) inline the common short cases and call these for the rest. Everything here
raises on bad input; ``explain`` then finds out which field it was.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from struct import Struct as Packer
from typing import Any

ZERO_UUID = bytes(16)
"""The uuid that means "none"."""

MAX_STRING = 0x7FFF
"""Longest string in bytes of UTF-8; Kafka keeps this limit also where the length field could say more."""

UVARINT_BYTES_MAX = 5

FORMATS = {
    "bool": "?",
    "int8": "b",
    "int16": "h",
    "int32": "i",
    "int64": "q",
    "uint16": "H",
    "uint32": "I",
    "float64": "d",
    "uuid": "16s",
}
"""Fixed-size wire types and their :mod:`struct` format."""


@lru_cache(maxsize=1024)
def packer(formats: str) -> Packer:
    """The big-endian packer of a run of fixed-size fields."""
    return Packer(">" + formats)


@lru_cache(maxsize=4096)
def array_reader(code: str, count: int) -> Callable[[Any, int], tuple[Any, ...]]:
    """``unpack_from`` for ``count`` adjacent values; a topic's replica lists are mostly of one length."""
    return Packer(f">{count}{code}").unpack_from


def read_array(code: str, size: int, count: int, data: Any, pos: int) -> list[Any]:
    """``count`` fixed-size values of ``size`` bytes at ``pos``."""
    if code == "16s":
        end = pos + 16 * count
        if end > len(data):
            raise IndexError
        return [bytes(data[i : i + 16]) for i in range(pos, end, 16)]
    if count * size > len(data) - pos:
        raise IndexError
    if count <= 64:
        return list(array_reader(code, count)(data, pos))
    return list(Packer(f">{count}{code}").unpack_from(data, pos))


def write_array(code: str, out: bytearray, values: list[Any]) -> None:
    """Append fixed-size values."""
    if code == "16s":
        for value in values:
            write_uuid(out, value)
    else:
        out += Packer(f">{len(values)}{code}").pack(*values)


def write_uuid(out: bytearray, value: bytes) -> None:
    """Append a uuid; :mod:`struct` would silently pad or cut one of another length."""
    if len(value) != 16:
        raise ValueError
    out += value


def read_uvarint(data: Any, pos: int) -> tuple[int, int]:
    """An unsigned 32-bit varint at ``pos``; returns it and the position after it."""
    value = shift = 0
    for _ in range(UVARINT_BYTES_MAX):
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value > 0xFFFFFFFF:
                break
            return value, pos
        shift += 7
    raise ValueError


def write_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
