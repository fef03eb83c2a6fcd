"""Opens stored batches with limited memory, however large they become. It's pure. Batches that aren't quick to read are
opened in a thread."""

from __future__ import annotations

from collections.abc import Iterator

from aiokproto.records import RecordBatch, decode
from aiokproto.records.batch import CODEC
from aiokproto.types import OffsetAndTimestamp

Buffer = bytes | bytearray | memoryview

_MAX_RECORD_BYTES = 16 << 20
"""Maximum size of a record in bytes, unless the stored data is larger: kilobytes can become gigabytes. Kafka has no
such limit."""

_QUICK_BYTES = 32 << 10
"""Maximum size, in bytes, of a batch to read in the event loop. It takes a few milliseconds if the records are tiny."""


def open_stored(data: Buffer, *, check_crc: bool = False) -> Iterator[RecordBatch]:
    """Yield the batches in part of a log. A record larger than both 16 MiB and ``data`` counts as damaged."""
    return decode(data, check_crc=check_crc, max_record=max(_MAX_RECORD_BYTES, len(data)))


def is_quick(batch: RecordBatch) -> bool:
    """Return whether all records can be read in one short step of the event loop."""
    return not batch.attributes & CODEC and batch.size_in_bytes <= _QUICK_BYTES


def first_at_time(batch: RecordBatch, timestamp: int, offset: int) -> OffsetAndTimestamp | None:
    """Return the first record at or after ``offset`` whose timestamp (ms) is at least ``timestamp``, or None.

    Raises:
        CorruptRecordError, UnsupportedCompressionError: The batch can't be read.
    """
    slices = batch.slices(_offset_and_timestamp)
    while not slices.ended:
        for found in slices.read():
            if found[1] >= timestamp and found[0] >= offset:
                return OffsetAndTimestamp(*found)
    return None


def _offset_and_timestamp(
    offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: object
) -> tuple[int, int]:
    return offset, timestamp
