"""What the log needs to know of a stored batch: its header, read without touching the records."""

from __future__ import annotations

from mmap import mmap
from typing import NamedTuple

from aiokproto.errors import CorruptRecordError
from aiokproto.records.batch import CONTROL, HEADER, LOG_OVERHEAD

Buffer = bytes | bytearray | memoryview | mmap


class BatchHeader(NamedTuple):
    """A batch of a segment.

    Attributes:
        base_offset: Offset of its first record.
        last_offset: Offset of its last record.
        size: Its bytes in the file.
        leader_epoch: Epoch of the leader that appended it.
        crc: The checksum it carries.
        attributes: Its flags.
        max_timestamp: Greatest timestamp of its records (ms).
        producer_id: Its idempotent producer, else -1.
        producer_epoch: That producer's epoch.
        base_sequence: Sequence number of its first record, else -1.
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
        if len(data) - pos < HEADER.size:
            raise CorruptRecordError(f"{len(data) - pos} bytes are too few for a batch")
        (base, length, epoch, magic, crc, attributes, delta, _, timestamp, pid, pepoch, sequence, _) = (
            HEADER.unpack_from(data, pos)
        )
        if magic != 2 or delta < 0 or base < 0 or length < HEADER.size - LOG_OVERHEAD:
            raise CorruptRecordError(f"no batch header: offset {base}, length {length}, magic {magic}, delta {delta}")
        size = length + LOG_OVERHEAD
        return cls(base, base + delta, size, epoch, crc, attributes, timestamp, pid, pepoch, sequence)
