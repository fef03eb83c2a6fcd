"""A record batch of magic 2, as stored in a log and sent in Produce and Fetch, and the interface of all formats."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TypeVar

from aiokproto.errors import CodecError, CorruptRecordError, UnsupportedCompressionError
from aiokproto.records.compression import MAX_DECOMPRESSED, Bytes, Compression, chunks
from aiokproto.records.crc import crc32c
from aiokproto.records.cutting import joined
from aiokproto.records.record import MAX_RECORD, BatchRecord, Make, RecordsHeader, read_records
from aiokproto.records.slices import SMALL_BYTES, SMALL_RECORD, Slices, named
from aiokproto.records.varint import INT64_MAX
from aiokproto.types import TimestampType

T = TypeVar("T")

HEADER = struct.Struct(">qiibIhiqqqhii")
"""Base offset, length, leader epoch, magic, CRC, attributes, last offset delta, base and max timestamp, producer id,
producer epoch, base sequence, record count: 61 bytes in every batch of magic 2."""

LOG_OVERHEAD = 12
"""Size of base offset and length (bytes), which the length field doesn't include; the same in every magic."""

MAGIC_AT = 16
"""Position of the magic byte; the same in every magic."""

CRC_FROM = 21
"""Position of the first byte that the checksum covers. Brokers set the base offset and leader epoch before it."""

CODEC = 0x07
TIMESTAMP_TYPE = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40


class RecordBatch:
    """A view of one batch. The constructor reads the header. Each iteration reads the records again.

    Iterating gives :class:`~aiokproto.records.record.BatchRecord` objects; ``len()`` is the number of records. Control
    batches (``is_control``) iterate like any other, and :mod:`aiokproto.records.control` decodes their records.

    Attributes:
        raw: The whole batch, a view of the buffer that holds it.
        base_offset: Offset of the first record when the batch was written. Compaction may have removed that record.
        length: The batch's length field: the number of bytes after that field.
        partition_leader_epoch: Set by the broker; -1 in a Produce request.
        magic: The format: 2; or 0 or 1 for a :class:`~aiokproto.records.legacy.LegacyBatch`.
        crc: The checksum in the header.
        attributes: Codec and flags as one number.
        last_offset_delta: Offset of the last record when the batch was written, minus ``base_offset``.
        base_timestamp: The records' timestamps are relative to it; see ``has_delete_horizon``.
        max_timestamp: The greatest timestamp (ms). With LogAppendTime, the timestamp of every record.
        producer_id: The idempotent producer's id, or -1.
        producer_epoch: The producer's epoch, or -1.
        base_sequence: Sequence number of the first record, or -1.
        count: Number of records.
        max_decompressed: Maximum number of bytes that the records may decompress to.
        max_record: Maximum size of a record (bytes), where each header adds
            :data:`~aiokproto.records.record.HEADER_WEIGHT`. It also limits a snappy block, which can only be
            decompressed as a whole.
        source: The record set that ``decode`` found the batch in; otherwise the same as ``raw``.
        position: Position of the batch in ``source``.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "count",
        "crc",
        "last_offset_delta",
        "length",
        "magic",
        "max_decompressed",
        "max_record",
        "max_timestamp",
        "partition_leader_epoch",
        "position",
        "producer_epoch",
        "producer_id",
        "raw",
        "source",
    )

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    count: int

    def __init__(self, raw: Bytes, *, max_decompressed: int = MAX_DECOMPRESSED, max_record: int = MAX_RECORD) -> None:
        """View ``raw``, which must be exactly one batch. The checksum isn't verified: see :meth:`validate`.

        Raises:
            CorruptRecordError: ``raw`` is not one complete batch of magic 2, or its header is invalid.
        """
        # A view, not a copy: the batches of a Fetch response share its buffer.
        self.raw = self.source = memoryview(raw)
        self.position = 0
        self.max_decompressed = max_decompressed
        self.max_record = max_record
        if len(self.raw) < HEADER.size:
            raise CorruptRecordError(f"a record batch has at least {HEADER.size} bytes, not {len(self.raw)}")
        (
            self.base_offset,
            self.length,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.count,
        ) = HEADER.unpack_from(self.raw)
        if self.magic != 2:
            raise self.damage(f"magic is {self.magic}, not 2")
        if self.length + LOG_OVERHEAD != len(self.raw):
            raise self.damage(f"by its length field it has {self.length + LOG_OVERHEAD} bytes, not {len(self.raw)}")
        # count may be less than last_offset_delta + 1, or 0: compaction removes records and keeps the header.
        if self.count < 0 or self.last_offset_delta < 0:
            raise self.damage(f"{self.count} records, last offset delta {self.last_offset_delta}")
        # The next offset has to be valid too. The checksum doesn't cover the base offset.
        if self.base_offset + self.last_offset_delta >= INT64_MAX:
            raise self.damage(f"its last offset, {self.last_offset}, has none behind it in 64 bits")

    @property
    def compression(self) -> Compression:
        """The codec of the records.

        Raises:
            UnsupportedCompressionError: The codec's number is unknown.
        """
        try:
            return Compression.of(self.attributes)
        except UnsupportedCompressionError as error:
            raise UnsupportedCompressionError(str(self.damage(error))) from None

    @property
    def timestamp_type(self) -> TimestampType:
        """CREATE_TIME if the producer set the timestamps, LOG_APPEND_TIME if the broker did (KIP-32)."""
        return TimestampType.LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Whether the batch contains control records, which are not delivered to users."""
        return bool(self.attributes & CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        """Whether ``base_timestamp`` is the time (ms) after which compaction may drop tombstones (KIP-534)."""
        return bool(self.attributes & DELETE_HORIZON)

    @property
    def delete_horizon(self) -> int | None:
        """The time (ms) after which compaction may drop tombstones and markers (KIP-534); None if not set."""
        return self.base_timestamp if self.has_delete_horizon else None

    @property
    def last_offset(self) -> int:
        """Offset of the last record when the batch was written."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after this batch, to continue reading from, even if compaction has removed its last records."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """Sequence number of the last record; -1 without a producer id. Sequence numbers wrap from 2**31 - 1 to 0."""
        if self.base_sequence < 0:
            return -1
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def size_in_bytes(self) -> int:
        """Size of the whole batch as stored and sent."""
        return len(self.raw)

    def validate(self) -> None:
        """Verify the checksum.

        Raises:
            CorruptRecordError: The checksum does not match the bytes.
        """
        # The checksum covers the compressed bytes, so a damaged batch is detected without decompressing it.
        actual = crc32c(self.raw[CRC_FROM:])
        if actual != self.crc:
            raise self.damage(f"checksum is {actual:#010x} but should be {self.crc:#010x}")

    @property
    def records_header(self) -> RecordsHeader:
        """What the header says about the records: base offset, base timestamp, append time and count."""
        # If there's LogAppendTime, the records still contain the producer's timestamps, but these don't count.
        append_time = self.max_timestamp if self.attributes & TIMESTAMP_TYPE else None
        return self.base_offset, self.base_timestamp, append_time, self.count

    def unpacked(self) -> Iterator[Bytes]:
        """Decompress the records section, one chunk at a time.

        Raises:
            CorruptRecordError: The section cannot be decompressed, or exceeds ``max_decompressed`` bytes.
            UnsupportedCompressionError: The codec is unknown or its library is missing.
        """
        packed = self.raw[HEADER.size :]
        if not self.attributes & CODEC:
            return iter((packed,))
        # If a batch has lost all its records, Kafka's cleaner keeps its header, with the codec and an empty body.
        if not self.count:
            return iter(())
        return chunks(self.compression, packed, self.max_record, self.max_decompressed)

    def body(self) -> Bytes:
        """Return the records section, decompressed; a view of ``raw`` if it isn't compressed.

        Raises:
            CorruptRecordError: The section cannot be decompressed, or exceeds ``max_decompressed`` bytes.
            UnsupportedCompressionError: The codec is unknown or its library is missing.
        """
        try:
            return joined(list(self.unpacked()))
        except CorruptRecordError as error:
            raise named(self, error) from error.__cause__

    def read_or_slice(self, make: Make[T], *, check_crc: bool = False) -> list[T] | Slices[T]:
        """Read a batch that is certain to be one slice, as most are. Otherwise return an object that reads slices.

        Args:
            make: Builds each record.
            check_crc: Whether to verify the checksum first: now, or when the slices are read.

        Raises:
            CorruptRecordError, UnsupportedCompressionError: For the same reasons as :meth:`records`.
        """
        raw, packed = self.raw, self.attributes & CODEC
        # Most compressed batches of half that size decompress to more than the limit.
        if len(raw) > (SMALL_BYTES // 2 if packed else SMALL_BYTES) or self.max_record < SMALL_RECORD:
            return self.slices(make, check_crc=check_crc)
        if check_crc:
            self.validate()
        append_time = self.max_timestamp if self.attributes & TIMESTAMP_TYPE else None
        try:
            body: Bytes = raw[HEADER.size :]
            if packed:
                unpacked = self.unpacked()
                parts: list[Bytes] = []
                if _taken(unpacked, parts) > SMALL_BYTES:
                    # The slices take over what has been decompressed. The batch doesn't keep it, since other callers
                    # may read the batch concurrently.
                    return Slices(self, make, first_chunks=parts, unpacked=unpacked)
                body = joined(parts)
            return read_records(body, self.count, self.base_offset, self.base_timestamp, append_time, make)
        except CodecError as error:
            raise named(self, error) from error.__cause__

    def slices(self, make: Make[T], *, check_crc: bool = False) -> Slices[T]:
        """Return the records in slices that use limited memory, each built by ``make(offset, timestamp, key, value,
        headers)``. With ``check_crc``, the first use of the slices verifies the checksum."""
        return Slices(self, make, check_crc=check_crc)

    def records(self, make: Make[T]) -> list[T]:
        """Read all records, each built by ``make(offset, timestamp, key, value, headers)``.

        It reads all of them, however many there are. See :meth:`slices`, which iteration uses.

        Raises:
            CorruptRecordError: The records are damaged.
            UnsupportedCompressionError: The codec is unknown or its library is missing.
        """
        slices = self.slices(make)
        records = slices.read()
        while not slices.ended:
            records += slices.read()
        return records

    def __iter__(self) -> Iterator[BatchRecord]:
        slices = self.slices(BatchRecord)
        while not slices.ended:
            yield from slices.read()

    def __len__(self) -> int:
        return self.count

    def __bool__(self) -> bool:
        # A batch that compaction has emptied is still a batch. Without this method `if batch` would test its count.
        return True

    def __repr__(self) -> str:
        return (
            f"RecordBatch(base_offset={self.base_offset}, count={self.count}, size_in_bytes={self.size_in_bytes}, "
            f"attributes={self.attributes:#x}, producer_id={self.producer_id})"
        )

    def damage(self, why: object) -> CorruptRecordError:
        """Return an error that mentions the batch."""
        return CorruptRecordError(f"record batch at offset {self.base_offset}: {why}")


def _taken(unpacked: Iterator[Bytes], parts: list[Bytes]) -> int:
    """Take the chunks of a small batch, or stop once there are too many bytes for one. Return their size."""
    size = 0
    for part in unpacked:
        parts.append(part)
        size += len(part)
        if size > SMALL_BYTES:
            break
    return size
