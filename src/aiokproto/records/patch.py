"""Change the header of an encoded batch in place, as brokers do when they append and producers when they retry.

The checksum doesn't cover base offset and leader epoch, so a broker can set them without touching a compressed batch.
Every other change of the header also updates the checksum by the resulting difference, which is possible because CRCs
are linear. So the records aren't read, and damage to them is still detected later.

Each function takes the buffer that contains the batch, and the position where the batch starts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

from aiokproto.records.batch import CODEC, CRC_FROM, HEADER, LOG_OVERHEAD, TIMESTAMP_TYPE, TRANSACTIONAL
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
    """Set the base offset, and with it the offsets of all records."""
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
    """Set timestamp type and greatest timestamp (ms). With LogAppendTime this is the timestamp of every record."""
    (attributes,) = _INT16.unpack_from(buffer, pos + _ATTRIBUTES_AT)
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= TIMESTAMP_TYPE
    else:
        attributes &= ~TIMESTAMP_TYPE
    with _checksum_follows(buffer, pos):
        _INT16.pack_into(buffer, pos + _ATTRIBUTES_AT, attributes)
        _INT64.pack_into(buffer, pos + _MAX_TIMESTAMP_AT, max_timestamp)


def set_producer(buffer: Buffer, pos: int, producer_id: int, producer_epoch: int, base_sequence: int) -> None:
    """Set producer id, epoch and first sequence number, as a producer does after its id or epoch has changed."""
    with _checksum_follows(buffer, pos):
        _PRODUCER.pack_into(buffer, pos + _PRODUCER_AT, producer_id, producer_epoch, base_sequence)


def clear_producer(buffer: Buffer, pos: int, *, transactional: bool = False) -> None:
    """Turn a stored batch into one that any producer can send: clear offset, epoch and producer.

    With ``transactional`` it becomes part of the sending producer's transaction; otherwise it isn't part of a
    transaction.

    The records and their timestamps stay. A delete horizon (KIP-534) remains as the base timestamp, but loses its
    meaning. Don't use this for a batch with LogAppendTime: its greatest timestamp isn't a timestamp of its records.
    """
    (attributes,) = _INT16.unpack_from(buffer, pos + _ATTRIBUTES_AT)
    set_base_offset(buffer, pos, 0)
    set_leader_epoch(buffer, pos, -1)
    with _checksum_follows(buffer, pos):
        # Keep the codec. Timestamp type, control flag and delete horizon are set by brokers.
        _INT16.pack_into(buffer, pos + _ATTRIBUTES_AT, attributes & CODEC | (TRANSACTIONAL if transactional else 0))
        _PRODUCER.pack_into(buffer, pos + _PRODUCER_AT, -1, -1, -1)


def update_crc(buffer: Buffer, pos: int = 0) -> None:
    """Compute the checksum from the whole batch and set it."""
    (length,) = _INT32.unpack_from(buffer, pos + _LENGTH_AT)
    with memoryview(buffer) as view, view[pos + CRC_FROM : pos + LOG_OVERHEAD + length] as covered:
        crc = crc32c(covered)
    _UINT32.pack_into(buffer, pos + _CRC_AT, crc)


@contextmanager
def _checksum_follows(buffer: Buffer, pos: int) -> Iterator[None]:
    """Update the checksum for the changes that the block makes to the header."""
    (length,) = _INT32.unpack_from(buffer, pos + _LENGTH_AT)
    (crc,) = _UINT32.unpack_from(buffer, pos + _CRC_AT)
    with memoryview(buffer) as view, view[pos + CRC_FROM : pos + HEADER.size] as covered:
        # The checksum of the header alone. join() shifts the difference past the records without reading them.
        before = crc32c(covered)
        yield
        change = before ^ crc32c(covered)
    _UINT32.pack_into(buffer, pos + _CRC_AT, crc ^ join(change, 0, LOG_OVERHEAD + length - HEADER.size))
