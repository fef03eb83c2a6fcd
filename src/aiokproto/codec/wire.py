"""Wire primitives: fixed-size packers, varints, tagged fields, and the limits of decoding.

The compiled codecs (see ``compiler``) inline the common short cases and call these for the rest. Everything here
raises on bad input; ``explain`` then finds the field.
"""

from __future__ import annotations

from functools import lru_cache
from struct import Struct as Packer

from aiokproto.codec.steps import finish

# typing isn't imported, for the reason in ``schema``.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from aiokproto.codec.steps import Steps

ZERO_UUID = bytes(16)
"""The uuid that means "none"."""

MAX_STRING = 0x7FFF
"""Maximum size of a string in bytes of UTF-8. Kafka enforces this limit even where the length field would allow
more."""

UVARINT_BYTES_MAX = 5


class Limits:
    """Limits of decoding one message; a message over a limit is rejected with :exc:`.DecodeError`.

    Counts don't need a separate limit: a count of more items than the remaining bytes could contain is rejected before
    anything is created. Nesting doesn't need one either: no schema contains itself, and the deepest is six structs
    deep.

    Args:
        size: Maximum size of the message in bytes. The default is the maximum length of a frame.
        memory: Maximum memory for decoded structs, lists and values, in bytes. The contents of strings and bytes fields
            come on top, at most six times the message's size; record sets aren't copied at all. Without this limit, a
            message can take up to 189 times its size (ListGroupsResponse v3). A MetadataResponse v12 can take up to 96
            times its size, a FetchResponse v12 up to 162 times.
    """

    __slots__ = ("memory", "size")

    def __init__(self, size: int = 0x7FFFFFFF, memory: int = 1 << 30) -> None:
        self.size = size
        self.memory = memory

    def __repr__(self) -> str:
        return f"Limits(size={self.size}, memory={self.memory})"


DEFAULT_LIMITS = Limits()

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
    """Return the big-endian packer of a run of fixed-size fields."""
    return Packer(">" + formats)


class _Counted(dict[int, "Callable[..., Any]"]):
    """Functions that pack or unpack a number of values, by the count on the wire. Most replica lists have the same
    length."""

    def __init__(self, before: str, code: str, compact: bool, method: str) -> None:
        super().__init__()
        self.before = before
        self.code = code
        self.compact = compact
        self.method = method

    def __missing__(self, count: int) -> Callable[..., Any]:
        values = count - self.compact
        if values < 0:
            raise ValueError
        function: Callable[..., Any] = getattr(Packer(f">{self.before}{values}{self.code}"), self.method)
        if values <= 64:
            self[count] = function
        return function


@lru_cache(maxsize=64)
def array_readers(before: str, code: str) -> _Counted:
    """Return ``unpack_from`` functions for fixed-size values, by their count. ``before`` contains the formats to
    skip."""
    return _Counted(before, code, False, "unpack_from")


@lru_cache(maxsize=16)
def few_readers(code: str) -> list[Callable[..., Any] | None]:
    """Return ``unpack_from`` functions by a one-byte compact count, which they skip. Lookup in a list is faster than in
    a dict."""
    return [None, *(Packer(f">x{count}{code}").unpack_from for count in range(127))]


@lru_cache(maxsize=512)
def array_packers(before: str, code: str, compact: bool) -> _Counted:
    """Return ``pack`` functions for the fixed-size values in ``before`` followed by array items, by the items'
    count."""
    return _Counted(before, code, compact, "pack")


def write_uuids(out: bytearray, values: list[bytes]) -> None:
    """Append uuids."""
    for value in values:
        write_uuid(out, value)


def write_uuid(out: bytearray, value: bytes) -> None:
    """Append a uuid. :mod:`struct` would silently pad or cut a value of another length."""
    if len(value) != 16:
        raise ValueError
    out += value


def read_uvarint(data: Any, pos: int) -> tuple[int, int]:
    """Read an unsigned 32-bit varint at ``pos``. Return the value and the position after it."""
    value = data[pos]
    if value < 0x80:
        return value, pos + 1
    # The lengths of record sets, and counts above 127, usually take two bytes.
    byte = data[pos + 1]
    value = value & 0x7F | (byte & 0x7F) << 7
    pos += 2
    shift = 14
    while byte > 0x7F:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if value > 0xFFFFFFFF or shift > 7 * UVARINT_BYTES_MAX:
            raise ValueError
    return value, pos


def write_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_tag(data: Any, pos: int, last: int) -> tuple[int, int, int]:
    """Read the head of a tagged field: its tag, its end and its start. Tags must ascend; ``last`` is the previous
    tag."""
    tag, pos = read_uvarint(data, pos)
    size, pos = read_uvarint(data, pos)
    if tag <= last:
        raise ValueError
    if size > len(data) - pos:
        raise IndexError
    return tag, pos + size, pos


def read_tags(data: Any, pos: int, count: int) -> tuple[dict[int, bytes], int]:
    """Read ``count`` tagged fields that aren't in the schema."""
    return finish(reading_tags(data, pos, count))


def reading_tags(data: Any, pos: int, count: int) -> Steps[tuple[dict[int, bytes], int]]:
    """Like :func:`read_tags`, but in steps."""
    tags: dict[int, bytes] = {}
    tag = -1
    for _ in range(count):
        tag, end, pos = read_tag(data, pos, tag)
        tags[tag] = bytes(data[pos:end])
        pos = end
        yield
    return tags, pos


def write_tags(out: bytearray, tags: dict[int, Any]) -> None:
    """Append a section of tagged fields, each already encoded."""
    write_uvarint(out, len(tags))
    for tag in sorted(tags):
        write_uvarint(out, tag)
        write_uvarint(out, len(tags[tag]))
        out += tags[tag]
