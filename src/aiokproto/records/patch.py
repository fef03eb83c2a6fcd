"""Changing the header of a stored batch in place, as a broker does.

Base offset and leader epoch lie before what the checksum covers, so that a broker can set them and leave a compressed
batch alone. Everything else needs the checksum anew, but never the records.

Each function takes the buffer that holds the batch and the position where the batch begins.
"""

from __future__ import annotations

import struct

from aiokproto.records.batch import CRC_FROM, LOG_OVERHEAD, TIMESTAMP_TYPE
from aiokproto.records.crc import crc32c
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
    _INT16.pack_into(buffer, pos + _ATTRIBUTES_AT, attributes)
    _INT64.pack_into(buffer, pos + _MAX_TIMESTAMP_AT, max_timestamp)
    update_crc(buffer, pos)


def set_producer(buffer: Buffer, pos: int, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Set who sends the batch: what a producer does with batches it kept when its id or epoch has changed."""
    _PRODUCER.pack_into(buffer, pos + _PRODUCER_AT, producer_id, producer_epoch, base_sequence)
    update_crc(buffer, pos)


def update_crc(buffer: Buffer, pos: int = 0) -> None:
    """Set the checksum to what the batch now holds."""
    (length,) = _INT32.unpack_from(buffer, pos + _LENGTH_AT)
    with memoryview(buffer) as view, view[pos + CRC_FROM : pos + LOG_OVERHEAD + length] as covered:
        crc = crc32c(covered)
    _UINT32.pack_into(buffer, pos + _CRC_AT, crc)
