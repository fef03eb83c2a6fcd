"""What the log needs to know of a stored batch: its header, read without touching the records.

A log from before Kafka 0.11 holds messages of magic 0 and 1. Each, compressed set or not, is a batch to the log: one
without producer, whose offset is that of its last record.
"""

from __future__ import annotations

import struct
from mmap import mmap
from typing import NamedTuple
from zlib import crc32

from aiokproto.errors import CorruptRecordError
from aiokproto.records.batch import CONTROL, CRC_FROM, HEADER, LOG_OVERHEAD, MAGIC_AT, TIMESTAMP_TYPE
from aiokproto.records.crc import crc32c
from aiokproto.records.legacy import SMALLEST

Buffer = bytes | bytearray | memoryview | mmap

_MESSAGE = struct.Struct(">qiIBBq")
"""Offset, length, checksum, magic, attributes and, in magic 1, the timestamp: no message is shorter."""

_MESSAGE_FLAGS = 0x07 | TIMESTAMP_TYPE


class BatchHeader(NamedTuple):
    """A batch of a segment.

    Attributes:
        base_offset: Offset of its first record; in magic 0 and 1, where only the records tell, of its last.
        last_offset: Offset of its last record.
        size: Its bytes in the file.
        leader_epoch: Epoch of the leader that appended it.
        crc: The checksum it carries.
        attributes: Its flags.
        max_timestamp: Greatest timestamp of its records (ms).
        producer_id: Its idempotent producer, else -1.
        producer_epoch: That producer's epoch.
        base_sequence: Sequence number of its first record, else -1.
        magic: Its format.
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
        """Sequence number of the last record; sequences go on from 0 after 2**31 - 1."""
        return (self.base_sequence + self.last_offset - self.base_offset) & 0x7FFFFFFF

    @property
    def has_sequence(self) -> bool:
        """Whether an idempotent producer wrote it. Control batches carry its id, but no sequence of records."""
        return self.producer_id >= 0 and not self.attributes & CONTROL

    @classmethod
    def read(cls, data: Buffer, pos: int = 0) -> BatchHeader:
        """Read the header at ``pos``.

        Raises:
            CorruptRecordError: It cannot be the header of a batch.
        """
        if len(data) - pos < HEADER.size or data[pos + MAGIC_AT] < 2:
            return cls._read_message(data, pos)
        (base, length, epoch, magic, crc, attributes, delta, _, timestamp, pid, pepoch, sequence, _) = (
            HEADER.unpack_from(data, pos)
        )
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
        """Whether its checksum is that of the batch at ``pos``, all of which is there."""
        begin, checksum = (CRC_FROM, crc32c) if self.magic > 1 else (MAGIC_AT, crc32)
        with view[pos + begin : pos + self.size] as covered:
            return checksum(covered) == self.crc
