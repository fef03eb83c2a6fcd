"""What decoding may cost in memory, whatever the bytes say.

Small items make large objects: a struct of two bytes on the wire is a hundred in memory, an unknown tag of two bytes a
dict. How far that goes is known before anything is decoded, since no schema contains itself: :func:`worst` is the most
memory per byte that any bytes can make of a message. One short enough for its worst to stay below
:attr:`.wire.Limits.memory` is decoded without further ado. A longer one is decoded by a second form of the same code,
which counts: before the items of an array or tag section are made, their cost is taken from what is left.

The costs are those of 64-bit CPython with its allocator's rounding, and never too low; a test measures them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from aiokproto.codec.wire import FORMATS, packer

if TYPE_CHECKING:
    from aiokproto.codec.schema import FieldSpec, Message, Struct

CONTENT = 6
"""Memory per byte of text or bytes: the copy that is read from, at worst 4 bytes a character, and room to widen."""

TAGS = 256
"""A struct's dict of unknown tags, empty."""

TAG = 192
"""One of its entries: its share of a dict that grows, an int, and a bytes object."""

_ITEM = 24
"""A place in a list that grows."""

_FIXED_ITEM = 16
"""A place in a tuple, and one in the list made of it."""

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
    """Raised by a counting decoder; ``explain`` says where."""


@lru_cache(maxsize=4096)
def struct_cost(struct: type[Struct]) -> int:
    """Bytes in memory of an instance, without contents and items. Fields that a version lacks take room, too."""
    cost = _STRUCT + _SLOT
    for spec in struct.fields():
        cost += _SLOT + (_LIST if spec.array else _single(spec))
    return cost


def item_cost(spec: FieldSpec) -> int:
    """Bytes in memory of one item of an array."""
    return _single(spec) + (_FIXED_ITEM if spec.kind in FORMATS else _ITEM)


def _single(spec: FieldSpec) -> int:
    return _VALUES[spec.kind] if spec.struct is None else struct_cost(spec.struct)


@lru_cache(maxsize=4096)
def minimal_size(struct: type[Struct], version: int, flexible: bool) -> int:
    """The fewest bytes an instance takes: what bounds a hostile count."""
    size = 1 if flexible else 0
    for spec in struct.fields():
        if version in spec.versions and spec.tag is None:
            compact = flexible and spec.flexible
            if spec.array or spec.kind in ("string", "bytes", "recordset"):
                size += 1 if compact else (2 if spec.kind == "string" and not spec.array else 4)
            elif spec.struct is not None:
                size += 1 if version in spec.nullable else minimal_size(spec.struct, version, flexible)
            else:
                size += packer(FORMATS[spec.kind]).size
    return max(size, 1)


def minimal_item(spec: FieldSpec, version: int, flexible: bool) -> int:
    """The fewest bytes that an item of an array takes."""
    if spec.struct is not None:
        return minimal_size(spec.struct, version, flexible)
    if spec.kind in FORMATS:
        return packer(FORMATS[spec.kind]).size
    return 1 if flexible and spec.flexible else (2 if spec.kind == "string" else 4)


def worst(message: type[Message], version: int) -> int:
    """The most memory per byte that decoding any bytes as this message can take, beyond a first kilobyte or so."""
    return _worst(message, version, version in message.flexible)


def _worst(struct: type[Struct], version: int, flexible: bool) -> int:
    # Whoever writes the bytes spends each on one thing: contents, items, or tags. The dearest thing bounds the mix.
    found = max(CONTENT, -(-TAG // 2) if flexible else 0)
    for spec in struct.fields():
        if version not in spec.versions:
            continue
        if spec.array:
            least, cost = minimal_item(spec, version, flexible), item_cost(spec)
            found = max(found, -(-cost // least))
            if spec.struct is not None and flexible:
                found = max(found, -(-(cost + TAGS + TAG) // (least + 2)))
        if spec.struct is not None:
            found = max(found, _worst(spec.struct, version, flexible))
    return found
