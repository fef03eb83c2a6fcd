"""The header of a stored batch, decoded without touching its records.

A log from before Kafka 0.11 contains messages of magic 0 and 1. To the log, each of them (a compressed set or an
individual message) is a batch without a producer. The only offset in its header is its last record's.
"""

from __future__ import annotations

import struct
from mmap import mmap
from typing import NamedTuple
from zlib import crc32

from aiokproto.errors import CorruptRecordError
from aiokproto.records.batch import CRC_FROM, HEADER, LOG_OVERHEAD, MAGIC_AT, TIMESTAMP_TYPE
from aiokproto.records.crc import crc32c
from aiokproto.records.legacy import SMALLEST

Buffer = bytes | bytearray | memoryview | mmap

_MESSAGE = struct.Struct(">qiIBBq")
"""Offset, length, CRC, magic, attributes, and the timestamp of magic 1. Even a message of magic 0 has at least this
length."""

_MESSAGE_FLAGS = 0x07 | TIMESTAMP_TYPE


class BatchHeader(NamedTuple):
    """A batch of a segment.

    Attributes:
        base_offset: The offset of its first record. In magic 0 and 1, of its last record: the header doesn't contain
            another offset.
        last_offset: The offset of its last record.
        size: Its size in bytes.
        leader_epoch: The epoch of the leader that appended it.
        crc: The stored checksum.
        attributes: Its flags.
        max_timestamp: The greatest timestamp of its records (ms).
        producer_id: The producer id of an idempotent producer; otherwise -1.
        producer_epoch: The producer's epoch.
        base_sequence: The sequence number of its first record; otherwise -1.
        magic: The format version.
    """

    base_offset: int
    last_offset: int
    size: int
    leader_epoch: int
    crc: int
    attributes: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    magic: int = 2

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record. Sequence numbers wrap to 0 after 2**31 - 1."""
        return (self.base_sequence + self.last_offset - self.base_offset) & 0x7FFFFFFF

    @classmethod
    def read(cls, data: Buffer, pos: int = 0) -> BatchHeader:
        """Decode the header at ``pos``.

        Raises:
            CorruptRecordError: There is no valid header.
        """
        # Magic is at the same position in all formats. A message can be shorter than the header of magic 2.
        if len(data) - pos < HEADER.size or data[pos + MAGIC_AT] < 2:
            return cls._read_message(data, pos)
        (base, length, epoch, magic, crc, attributes, delta, _, timestamp, pid, pepoch, sequence, _) = (
            HEADER.unpack_from(data, pos)
        )
        # Recovery finds such headers after the last batch: zeros, part of a batch, or bytes of another file.
        if magic != 2 or delta < 0 or base < 0 or length < HEADER.size - LOG_OVERHEAD:
            raise CorruptRecordError(f"no batch header: offset {base}, length {length}, magic {magic}, delta {delta}")
        size = length + LOG_OVERHEAD
        return cls(base, base + delta, size, epoch, crc, attributes, timestamp, pid, pepoch, sequence)

    @classmethod
    def _read_message(cls, data: Buffer, pos: int) -> BatchHeader:
        if len(data) - pos < _MESSAGE.size or data[pos + MAGIC_AT] > 1:
            raise CorruptRecordError(f"{len(data) - pos} bytes are too few for a batch")
        offset, length, crc, magic, attributes, timestamp = _MESSAGE.unpack_from(data, pos)
        if offset < 0 or length < SMALLEST[magic]:
            raise CorruptRecordError(f"no message: offset {offset}, length {length}, magic {magic}")
        timestamp = timestamp if magic else -1
        size = length + LOG_OVERHEAD
        return cls(offset, offset, size, -1, crc, attributes & _MESSAGE_FLAGS, timestamp, -1, -1, -1, magic)

    def is_intact(self, view: memoryview, pos: int) -> bool:
        """Return whether the checksum matches the batch at ``pos``. The whole batch must be in ``view``."""
        start, checksum = (CRC_FROM, crc32c) if self.magic > 1 else (MAGIC_AT, crc32)
        with view[pos + start : pos + self.size] as covered:
            return checksum(covered) == self.crc
