"""Reading runs of records alike, which is what most batches are: the fast path of ``read_records``.

Neighbours differ in what their fields hold, seldom in how many bytes those take. So one `struct` call fetches the
numbers at the start of a record, and tables of all varints of one and two bytes turn them into values: a number that
does not have the width expected is not in its table, and ends the run. So does everything unusual: whoever comes after
reads such a record byte by byte, and finds what is wrong with it, if anything is.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeVar

from aiokproto.types import Header

T = TypeVar("T")

_NULL = 1
_END_OF_RUN = (TypeError, IndexError, struct.error)
"""What a number that is not in its table leads to, or the end of the bytes."""

# Typed as if every number were there: testing each would cost what the tables save.
Table = list[int]


class _Widths(NamedTuple):
    """How many bytes the numbers take that a record starts with; ``value`` is 0 where a key comes before it."""

    length: int
    timestamp: int
    offset: int
    value: int


class _Reader(NamedTuple):
    unpack: Callable[[bytes, int], tuple[Any, ...]]
    size: int
    length: Table
    timestamp: Table
    offset: Table
    value: Table


def read_uniform(
    data: bytes,
    pos: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    make: Callable[[int, int, bytes | None, bytes | None, tuple[Header, ...]], T],
    records: list[T],
) -> int:
    """Append up to ``count`` records, from ``pos`` on, that are like the first; returns where the next one starts.

    The arguments are those of ``read_records``.
    """
    widths = _widths(data, pos)
    if widths is None:
        return pos
    unpack, size, lengths, timestamps, offsets, sizes = _reader(widths)
    width, keyed = widths.length, widths.value == 0
    short, long = _lengths(1), _lengths(2)
    key = None
    for _ in range(count):
        try:
            if keyed:
                length, timestamp, offset, number = unpack(data, pos)
                start = pos + size
                key = data[start : (start := start + sizes[number])]
                if (number := data[start]) < 128:
                    stop = (start := start + 1) + short[number]
                else:
                    stop = (start := start + 2) + long[number | data[start - 1] << 8]
            else:
                length, timestamp, offset, null, number = unpack(data, pos)
                if null != _NULL:
                    break
                start = pos + size
                stop = start + sizes[number]
            timestamp = base_timestamp + timestamps[timestamp]
            offset = base_offset + offsets[offset]
            end = pos + width + lengths[length]
            # Nothing but the count of headers, zero, comes after the value.
            if stop + 1 != end or data[stop]:
                break
        except _END_OF_RUN:
            break
        pos = end
        records.append(make(offset, timestamp if append_time is None else append_time, key, data[start:stop], ()))
    return pos


def _widths(data: bytes, pos: int) -> _Widths | None:
    """Those of the record at ``pos``; None if it has wider numbers, or they are not all there."""
    start = data[pos : pos + 12]
    widths: list[int] = []
    at = 0
    for number in range(5):
        # The timestamp comes after the record's attributes.
        at += number == 1
        width = next((size for size in (1, 2) if at + size <= len(start) and start[at + size - 1] < 128), 0)
        if not width:
            return None
        widths.append(width)
        if number == 3 and start[at] != _NULL:
            return _Widths(widths[0], widths[1], widths[2], 0) if width == 1 else None
        at += width
    return _Widths(widths[0], widths[1], widths[2], widths[4])


@cache
def _reader(widths: _Widths) -> _Reader:
    length, timestamp, offset, value = ("_BH"[width] for width in widths)
    head = struct.Struct(f"<{length}x{timestamp}{offset}B{value.strip('_')}")
    return _Reader(
        head.unpack_from,
        head.size,
        _lengths(widths.length),
        _signed(widths.timestamp),
        _signed(widths.offset),
        # A key's size, where there is one, takes a byte.
        _lengths(widths.value or 1),
    )


@cache
def _signed(width: int) -> Table:
    """The values of the signed varints of so many bytes, by what these are as one little-endian number."""
    return _table(width, lambda raw: raw >> 1 ^ -(raw & 1))


@cache
def _lengths(width: int) -> Table:
    """Likewise those that are no less than 0."""
    return _table(width, lambda raw: None if raw & 1 else raw >> 1)


def _table(width: int, value: Callable[[int], int | None]) -> Table:
    if width == 1:
        return [*map(value, range(128))]  # type: ignore[list-item]
    table: list[Any] = [None] * (128 << 8)
    # The second byte is never 0 in a varint that is as short as can be; any other is left to the reader of odd ones.
    for high in range(1, 128):
        table[high << 8 | 128 : (high + 1) << 8] = map(value, range(high << 7, (high + 1) << 7))
    return table
