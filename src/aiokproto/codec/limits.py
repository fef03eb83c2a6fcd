"""Limits the memory that decoding can take, whatever the input.

Small items become large objects: a struct of two bytes on the wire takes a hundred bytes in memory, and an unknown tag
of two bytes creates a dict. No schema contains itself, so the maximum is known before decoding: :func:`worst` is the
maximum memory per byte of a message. If a message is so short that its maximum stays below :attr:`.wire.Limits.memory`,
it is decoded directly. Longer messages are decoded by a second form of the same code, which counts: before it creates
the items of an array or tag section, it subtracts their cost from the remaining memory.

The costs are valid for 64-bit CPython with its allocator's rounding, and never too low; a test measures them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from aiokproto.codec.wire import FORMATS, packer

if TYPE_CHECKING:
    from aiokproto.codec.schema import FieldSpec, Message, Struct

CONTENT = 6
"""Memory per byte of strings and bytes: the copied input, up to 4 bytes per character, and space for widening."""

TAGS = 256
"""An empty dict for a struct's unknown tags."""

TAG = 192
"""One entry of that dict: its share of a growing table, an int, and a bytes object."""

_ITEM = 24
"""One slot of a growing list."""

_FIXED_ITEM = 16
"""One slot of a tuple, and one slot of the list made from it."""

_STRUCT = 48
_SLOT = 8
_LIST = 96
_VALUES = dict.fromkeys(FORMATS, 32) | {
    "bool": 0,
    "int64": 48,
    "uuid": 64,
    "string": 96,
    "bytes": 64,
    "recordset": 256,
}


class OverLimit(Exception):
    """Raised by a counting decoder; ``explain`` finds the field."""


@lru_cache(maxsize=4096)
def struct_cost(struct: type[Struct]) -> int:
    """Return the memory of an instance in bytes, excluding contents and items. Fields that a version lacks count
    too."""
    cost = _STRUCT + _SLOT
    for spec in struct.fields():
        cost += _SLOT + (_LIST if spec.array else _single(spec))
    return cost


def item_cost(spec: FieldSpec) -> int:
    """Return the memory of one array item in bytes."""
    return _single(spec) + (_FIXED_ITEM if spec.kind in FORMATS else _ITEM)


def _single(spec: FieldSpec) -> int:
    return _VALUES[spec.kind] if spec.struct is None else struct_cost(spec.struct)


@lru_cache(maxsize=4096)
def minimal_size(struct: type[Struct], version: int, flexible: bool) -> int:
    """Return the minimum encoded size of an instance in bytes, which limits a hostile count."""
    size = 1 if flexible else 0
    for spec in struct.fields():
        if version in spec.versions and spec.tag is None:
            compact = flexible and spec.flexible
            if spec.array or spec.kind in ("string", "bytes", "recordset"):
                size += 1 if compact else (2 if spec.kind == "string" and not spec.array else 4)
            elif spec.struct is not None:
                # A null struct is one byte, -1.
                size += 1 if version in spec.nullable else minimal_size(spec.struct, version, flexible)
            else:
                size += packer(FORMATS[spec.kind]).size
    # The minimum is 1, because a struct without fields in a version takes 0 bytes, and nothing would limit the number
    # of structs.
    return max(size, 1)


def minimal_item(spec: FieldSpec, version: int, flexible: bool) -> int:
    """Return the minimum encoded size of an array item in bytes."""
    if spec.struct is not None:
        return minimal_size(spec.struct, version, flexible)
    if spec.kind in FORMATS:
        return packer(FORMATS[spec.kind]).size
    return 1 if flexible and spec.flexible else (2 if spec.kind == "string" else 4)


def worst(message: type[Message], version: int) -> int:
    """Return the maximum memory per input byte that decoding this message can take, beyond the first kilobyte or so."""
    return _worst(message, version, version in message.flexible)


def _worst(struct: type[Struct], version: int, flexible: bool) -> int:
    # Each input byte is part of contents, an item, or a tag. The most expensive of the three is the limit for any mix
    # of them.
    found = max(CONTENT, -(-TAG // 2) if flexible else 0)
    for spec in struct.fields():
        if version not in spec.versions:
            continue
        if spec.array:
            least, cost = minimal_item(spec, version, flexible), item_cost(spec)
            found = max(found, -(-cost // least))
            if spec.struct is not None and flexible:
                # Assume one unknown tag per item: its two bytes create a dict as well.
                found = max(found, -(-(cost + TAGS + TAG) // (least + 2)))
        if spec.struct is not None:
            found = max(found, _worst(spec.struct, version, flexible))
    return found
