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


class _Readers(dict[int, Callable[[Any, int], tuple[Any, ...]]]):
    """Count → ``unpack_from`` of so many values; a topic's replica lists are mostly of one length."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self.code = code

    def __missing__(self, count: int) -> Callable[[Any, int], tuple[Any, ...]]:
        reader = Packer(f">{count}{self.code}").unpack_from
        if count <= 64:
            self[count] = reader
        return reader


_READERS = {code: _Readers(code) for code in FORMATS.values()}


def read_array(code: str, count: int, data: Any, pos: int) -> list[Any]:
    """``count`` fixed-size values at ``pos``."""
    if count > len(data) - pos:
        # Before a format of that size is even made.
        raise IndexError
    if code == "16s":
        end = pos + 16 * count
        if end > len(data):
            raise IndexError
        return [bytes(data[i : i + 16]) for i in range(pos, end, 16)]
    return list(_READERS[code][count](data, pos))


def write_array(code: str, out: bytearray, values: list[Any]) -> None:
    """Append fixed-size values."""
    if code == "16s":
        for value in values:
            write_uuid(out, value)
    else:
        out += packer(f"{len(values)}{code}").pack(*values)


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


def read_tag(data: Any, pos: int, last: int) -> tuple[int, int, int]:
    """A tagged field's number, where it ends, and where it begins. Numbers ascend: ``last`` is the one before."""
    tag, pos = read_uvarint(data, pos)
    size, pos = read_uvarint(data, pos)
    if tag <= last:
        raise ValueError
    if size > len(data) - pos:
        raise IndexError
    return tag, pos + size, pos


def read_tags(data: Any, pos: int, count: int) -> tuple[dict[int, bytes], int]:
    """``count`` tagged fields that no schema knows."""
    tags: dict[int, bytes] = {}
    tag = -1
    for _ in range(count):
        tag, end, pos = read_tag(data, pos, tag)
        tags[tag] = bytes(data[pos:end])
        pos = end
    return tags, pos


def write_tags(out: bytearray, tags: dict[int, Any]) -> None:
    """Append a section of tagged fields, each already encoded."""
    write_uvarint(out, len(tags))
    for tag in sorted(tags):
        write_uvarint(out, tag)
        write_uvarint(out, len(tags[tag]))
        out += tags[tag]
