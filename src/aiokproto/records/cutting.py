"""Cut a stream of chunks at record boundaries."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from aiokproto.errors import CorruptRecordError
from aiokproto.records.compression import Bytes
from aiokproto.records.record import MAX_RECORD

FindWhole = Callable[[Bytes, int, int, int], tuple[int, int, int]]
"""A function that finds whole records, such as :func:`~aiokproto.records.scan.whole_records`."""


def cut(
    chunks: Iterator[Bytes], size: int, most: int, find_whole: FindWhole, largest: int = MAX_RECORD
) -> Iterator[tuple[Bytes, int]]:
    """Yield pieces of whole records, each with its record count.

    A piece has at most ``size`` bytes and ``most`` records, or consists of one larger record. It's a view of the memory
    held at that time: about ``size`` bytes and one chunk, or the larger record.

    Raises:
        CorruptRecordError: The chunks do not end with a whole record, or a record has more than ``largest`` bytes. The
            pieces before that have been yielded.
    """
    size = min(size, largest)
    data: Bytes = b""
    pos = 0
    ended = False
    while True:
        count, end, following = find_whole(data, pos, size, most)
        # Check the size before collecting the bytes: a megabyte can decompress to gigabytes of zeros.
        # guard: a record that is too large is not collected
        if not count and following - end > largest:
            raise CorruptRecordError(
                f"a record has {following - end} bytes, more than the limit of {largest} (max_record_bytes)"
            )
        # The next record alone exceeds `size` but is complete, so it becomes a piece of its own.
        if not count and following <= len(data):
            count, end = 1, following
        # Yield a piece once nothing can be added to it. Otherwise more data may fill it up.
        if count and (ended or count == most or following <= len(data) or following - pos > size):
            yield memoryview(data)[pos:end], count
            pos = end
        elif not ended:
            # Copy the rest, so its chunk is freed before the next chunk is read.
            rest = bytes(memoryview(data)[pos:])
            data = b""
            data, ended = _more(rest, chunks, max(size, following - pos))
            pos = 0
        elif pos == len(data):
            return
        else:
            raise CorruptRecordError("the bytes end within a record")


def _more(rest: bytes, chunks: Iterator[Bytes], wanted: int) -> tuple[Bytes, bool]:
    """Extend ``rest`` with chunks to at least ``wanted`` bytes. Also return whether the chunks have ended."""
    data: Bytes = rest
    for chunk in chunks:
        if not data:
            # Don't copy this chunk: most records end within the chunk that they start in.
            data = chunk
        else:
            # Append each chunk instead of joining them at the end: a large record would be in memory twice.
            if not isinstance(data, bytearray):
                data = bytearray(data)
            data += chunk
        if len(data) >= wanted:
            return data, False
    return data, True


def joined(parts: list[Bytes]) -> Bytes:
    """Join the parts and clear the list. If there's only one part, it isn't copied, since it may be large."""
    whole = parts[0] if len(parts) == 1 else b"".join(parts)
    parts.clear()
    return whole
