"""Cutting what comes in chunks where records end."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from aiokproto.errors import CorruptRecordError
from aiokproto.records.compression import Bytes

Whole = Callable[[Bytes, int, int, int], tuple[int, int, int]]
"""Looks for whole records, as :func:`~aiokproto.records.scan.whole_records` does."""


def cut(chunks: Iterator[Bytes], size: int, most: int, whole: Whole) -> Iterator[tuple[Bytes, int]]:
    """Whole records of at most ``size`` bytes and ``most`` in number, or one that takes more, and how many they are.

    A piece is a view of what is held of the chunks: about ``size`` bytes and a chunk, or the one record.

    Raises:
        CorruptRecordError: The chunks are not whole records. Those before have been handed out by then.
    """
    data: Bytes = b""
    pos = 0
    ended = False
    while True:
        count, end, following = whole(data, pos, size, most)
        if not count and following <= len(data):
            count, end = 1, following
        if count and (ended or count == most or following <= len(data) or following - pos > size):
            yield memoryview(data)[pos:end], count
            pos = end
        elif not ended:
            # What is kept is copied, so that the rest can go before more comes.
            rest = bytes(memoryview(data)[pos:])
            data = b""
            data, ended = _more(rest, chunks, max(size, following - pos))
            pos = 0
        elif pos == len(data):
            return
        else:
            raise CorruptRecordError("the bytes end within a record")


def _more(rest: bytes, chunks: Iterator[Bytes], wanted: int) -> tuple[Bytes, bool]:
    """``rest`` and as many chunks as make it ``wanted`` bytes; and whether there are no more of them."""
    parts: list[Bytes] = [rest] if rest else []
    have = len(rest)
    for chunk in chunks:
        parts.append(chunk)
        have += len(chunk)
        if have >= wanted:
            break
    else:
        return joined(parts), True
    return joined(parts), False


def joined(parts: list[Bytes]) -> Bytes:
    """The parts as one. They are not kept; one that is alone is not copied, since it may be large."""
    whole = parts[0] if len(parts) == 1 else b"".join(parts)
    parts.clear()
    return whole
