"""Changing the header of a written batch in place, as brokers do, and producers that send one again.

Base offset and leader epoch lie before what the checksum covers, so that a broker can set them and leave a compressed
batch alone. Everything else changes the checksum, by as much as the header's own changes: the records are not read, and
if they are damaged, the checksum goes on saying so.

Each function takes the buffer that holds the batch and the position where the batch begins.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from aiokproto.records.batch import CODEC, CRC_FROM, HEADER, LOG_OVERHEAD, TIMESTAMP_TYPE
from aiokproto.records.crc import crc32c, join
from aiokproto.types import TimestampType

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_UINT32 = struct.Struct(">I")
_INT64 = struct.Struct(">q")
_PRODUCER = struct.Struct(">qhi")

_LENGTH_AT = 8
_LEADER_EPOCH_AT = 12
_CRC_AT = 17
_ATTRIBUTES_AT = 21
_MAX_TIMESTAMP_AT = 35
_PRODUCER_AT = 43

Buffer = bytearray | memoryview


def set_base_offset(buffer: Buffer, pos: int, offset: int) -> None:
    """Set the offset of the first record, and by it of all."""
    _INT64.pack_into(buffer, pos, offset)


def set_leader_epoch(buffer: Buffer, pos: int, epoch: int) -> None:
    """Set the epoch of the leader that appended the batch."""
    _INT32.pack_into(buffer, pos + _LEADER_EPOCH_AT, epoch)


def restamp(
    buffer: Buffer,
    pos: int,
    max_timestamp: int,
    timestamp_type: TimestampType = TimestampType.LOG_APPEND_TIME,
) -> None:
    """Set the timestamp type and the greatest timestamp (ms), which with LogAppendTime is that of every record."""
    (attributes,) = _INT16.unpack_from(buffer, pos + _ATTRIBUTES_AT)
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= TIMESTAMP_TYPE
    else:
        attributes &= ~TIMESTAMP_TYPE
    with _checksum_follows(buffer, pos):
        _INT16.pack_into(buffer, pos + _ATTRIBUTES_AT, attributes)
        _INT64.pack_into(buffer, pos + _MAX_TIMESTAMP_AT, max_timestamp)


def set_producer(buffer: Buffer, pos: int, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Set who sends the batch: what a producer does with batches it kept when its id or epoch has changed."""
    with _checksum_follows(buffer, pos):
        _PRODUCER.pack_into(buffer, pos + _PRODUCER_AT, producer_id, producer_epoch, base_sequence)


def clear_producer(buffer: Buffer, pos: int) -> None:
    """Make of a stored batch one that any producer may send: of where it was, of who wrote it in which transaction, and
    of compaction nothing is left but the records and their timestamps.

    A delete horizon (KIP-534) stays what timestamps are relative to, no longer a time that means anything itself. The
    greatest timestamp of a batch with LogAppendTime is not one of its records', so that this is not for such a batch.
    """
    (attributes,) = _INT16.unpack_from(buffer, pos + _ATTRIBUTES_AT)
    set_base_offset(buffer, pos, 0)
    set_leader_epoch(buffer, pos, -1)
    with _checksum_follows(buffer, pos):
        _INT16.pack_into(buffer, pos + _ATTRIBUTES_AT, attributes & CODEC)
        _PRODUCER.pack_into(buffer, pos + _PRODUCER_AT, -1, -1, -1)


def update_crc(buffer: Buffer, pos: int = 0) -> None:
    """Set the checksum to what the batch now holds."""
    (length,) = _INT32.unpack_from(buffer, pos + _LENGTH_AT)
    with memoryview(buffer) as view, view[pos + CRC_FROM : pos + LOG_OVERHEAD + length] as covered:
        crc = crc32c(covered)
    _UINT32.pack_into(buffer, pos + _CRC_AT, crc)


@contextmanager
def _checksum_follows(buffer: Buffer, pos: int) -> Iterator[None]:
    """Change the checksum by what is changed in the header meanwhile."""
    (length,) = _INT32.unpack_from(buffer, pos + _LENGTH_AT)
    (crc,) = _UINT32.unpack_from(buffer, pos + _CRC_AT)
    with memoryview(buffer) as view, view[pos + CRC_FROM : pos + HEADER.size] as covered:
        before = crc32c(covered)
        yield
        change = before ^ crc32c(covered)
    _UINT32.pack_into(buffer, pos + _CRC_AT, crc ^ join(change, 0, LOG_OVERHEAD + length - HEADER.size))
