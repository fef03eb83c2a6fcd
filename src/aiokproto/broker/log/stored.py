"""Opens stored batches in bounded memory, however large they become. It is pure; a thread opens batches that aren't
quick."""

from __future__ import annotations

from collections.abc import Iterator

from aiokproto.records import RecordBatch, decode
from aiokproto.records.batch import CODEC
from aiokproto.types import OffsetAndTimestamp

Buffer = bytes | bytearray | memoryview

_MAX_RECORD_BYTES = 16 << 20
"""The most bytes of a record that is read, unless it is stored in as many: kilobytes can become gigabytes. Kafka has no
such limit."""

_QUICK_BYTES = 32 << 10
"""The most bytes of a batch that the event loop reads: some milliseconds, if its records are tiny."""


def open_stored(data: Buffer, *, check_crc: bool = False) -> Iterator[RecordBatch]:
    """Yield the batches of a part of a log. A record that takes more than 16 MiB, and more than ``data``, counts as
    damaged."""
    return decode(data, check_crc=check_crc, max_record=max(_MAX_RECORD_BYTES, len(data)))


def is_quick(batch: RecordBatch) -> bool:
    """Return whether reading all records takes one short step of the event loop."""
    return not batch.attributes & CODEC and batch.size_in_bytes <= _QUICK_BYTES


def first_at_time(batch: RecordBatch, timestamp: int, offset: int) -> OffsetAndTimestamp | None:
    """Return the first record at or after ``offset`` whose timestamp (ms) isn't less than ``timestamp``, or None.

    Raises:
        CorruptRecordError, UnsupportedCompressionError: It cannot be read.
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
