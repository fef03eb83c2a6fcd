"""Write record batches of magic 2; :func:`encode` writes all formats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from aiokproto.errors import InvalidRecordError
from aiokproto.records.batch import CODEC, CONTROL, DELETE_HORIZON, HEADER, LOG_OVERHEAD, TRANSACTIONAL
from aiokproto.records.compression import Compression, compress
from aiokproto.records.legacy_builder import LegacyBuilder, check_limit
from aiokproto.records.patch import update_crc
from aiokproto.records.varint import INT64_MAX
from aiokproto.records.writer import RecordWriter
from aiokproto.types import Header

RECORD_OVERHEAD = 5 + 1 + 10 + 5 + 5 + 5 + 5
"""Maximum size, in bytes, of a record's length, attributes, timestamp, offset, key and value length, header count."""


class RecordLike(Protocol):
    """A record that :func:`encode` accepts: any object with these four attributes."""

    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[Header]: ...


class BatchBuilder(RecordWriter):
    """A batch being filled: the writer of its records, and the other fields of its header."""

    __slots__ = ("_base_sequence", "_compression", "_flags", "_level", "_producer_epoch", "_producer_id")

    def __init__(
        self,
        *,
        compression: str | Compression = Compression.NONE,
        level: int | None = None,
        max_bytes: int | None = None,
        magic: int = 2,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
        is_control: bool = False,
        delete_horizon: int | None = None,
    ) -> None:
        """Start a batch.

        Args:
            compression: The codec or its name (see :func:`encode`), applied when the batch is closed.
            level: The codec's level, or None for its default.
            max_bytes: Maximum size before compression, which only the first record may exceed. None means no limit.
            magic: The format; only 2 is supported.
            producer_id: The idempotent producer's id, or -1. :meth:`close` can replace this and the next two.
            producer_epoch: The producer's epoch.
            base_sequence: Sequence number of the first record.
            is_transactional: Whether the records belong to a transaction.
            is_control: Whether this is a control batch.
            delete_horizon: The time (ms) after which compaction may drop tombstones and markers (KIP-534), if any. It
                is stored as the base timestamp, in place of the first record's timestamp.

        Raises:
            UnsupportedCompressionError: The codec is unknown.
            ValueError: The magic is not 2, ``max_bytes`` is not a size, or the delete horizon is negative or exceeds 63
                bits.
        """
        if magic != 2:
            raise ValueError(f"magic={magic!r}: a BatchBuilder writes magic 2, a LegacyBuilder 0 and 1")
        check_limit(max_bytes)
        if delete_horizon is not None and not 0 <= delete_horizon <= INT64_MAX:
            raise ValueError(f"delete horizon {delete_horizon} is not milliseconds since the epoch in 63 bits")
        super().__init__(max_bytes, delete_horizon)
        self._compression = codec = Compression.parse(compression)
        self._level = level
        self._producer_id = producer_id
        self._producer_epoch = producer_epoch
        self._base_sequence = base_sequence
        self._flags = (
            codec
            | (TRANSACTIONAL if is_transactional else 0)
            | (CONTROL if is_control else 0)
            | (DELETE_HORIZON if delete_horizon is not None else 0)
        )

    def close(
        self,
        *,
        base_offset: int = 0,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        base_sequence: int | None = None,
        compressed: bool = True,
    ) -> bytearray:
        """Compress the records, write the header and return the batch. The builder cannot be used afterwards.

        This is the expensive part. It uses only the builder's own state, so it can run in a thread.

        Args:
            base_offset: Offset of the first record. Brokers assign their own.
            producer_id: Replaces the builder's producer id if given; likewise epoch and sequence number.
            producer_epoch: The producer's epoch.
            base_sequence: Sequence number of the first record.
            compressed: Whether to use the builder's codec.

        Raises:
            InvalidRecordError: The builder has no records, or is already closed.
            UnsupportedCompressionError: The codec's library is not installed.
        """
        # The builder gives its buffer away: copying it would copy megabytes.
        batch = self.take()
        flags = self._flags
        if not compressed:
            flags &= ~CODEC
        elif self._compression:
            with memoryview(batch) as view:
                packed = compress(self._compression, view[HEADER.size :], self._level)
            # The view is released by now: a bytearray with exports can't change its size.
            del batch[HEADER.size :]
            batch += packed
        fields = (
            flags,
            # The last offset delta: a new batch has no gaps.
            self.count - 1,
            self.base_timestamp,
            self.max_timestamp,
            self._producer_id if producer_id is None else producer_id,
            self._producer_epoch if producer_epoch is None else producer_epoch,
            self._base_sequence if base_sequence is None else base_sequence,
            self.count,
        )
        length = len(batch) - LOG_OVERHEAD
        # The epoch is -1 because the leader sets it, and the checksum is 0 until update_crc sets it.
        HEADER.pack_into(batch, 0, base_offset, length, -1, 2, 0, *fields)
        update_crc(batch)
        return batch


def estimate_size(key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> int:
    """Return an upper bound on the number of bytes that a record adds to a batch, before compression."""
    size = RECORD_OVERHEAD
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    for name, content in headers:
        # A character takes at most four bytes of UTF-8, and each length at most five.
        size += 10 + 4 * len(name) + (len(content) if content is not None else 0)
    return size


def encode(
    records: Iterable[RecordLike],
    *,
    magic: int = 2,
    compression: str | Compression = "none",
    level: int | None = None,
    base_offset: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    is_transactional: bool = False,
) -> bytes:
    """Write ``records`` as one batch, with offsets starting at ``base_offset``; their own offsets are ignored.

    Args:
        records: At least one record.
        magic: The format: 2, or 0 or 1 for a message set of Kafka before 0.11. Message sets don't support headers or
            producer ids, and magic 0 doesn't support timestamps.
        compression: none, gzip, snappy, lz4 or (magic 2 only) zstd.
        level: The codec's level, or None for its default.
        base_offset: Offset of the first record; brokers set their own.
        producer_id: The idempotent producer's id, or -1.
        producer_epoch: The producer's epoch.
        base_sequence: Sequence number of the first record.
        is_transactional: Whether the records belong to a transaction.

    Raises:
        InvalidRecordError: There are no records; or one of them is not a record, has an invalid timestamp, or has
            headers in magic 0 or 1.
        UnsupportedCompressionError: The codec is unknown, not available in this magic, or its library is missing.
        ValueError: The magic is not 0, 1 or 2, or it doesn't support producer ids and transactions.
    """
    if magic not in (0, 1, 2):
        raise ValueError(f"magic={magic!r}: encode() writes 0, 1 and 2")
    builder: BatchBuilder | LegacyBuilder
    if magic in (0, 1):
        if (producer_id, producer_epoch, base_sequence, is_transactional) != (-1, -1, -1, False):
            raise ValueError(f"magic {magic} has neither producer ids nor transactions")
        builder = LegacyBuilder(magic, compression=compression, level=level)
    else:
        builder = BatchBuilder(
            compression=compression,
            level=level,
            magic=magic,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
        )
    record: RecordLike | None = None
    try:
        for record in records:
            builder.append(record.timestamp, record.key, record.value, record.headers)
    except AttributeError as error:
        # The records may come from a generator, and an error in the generator itself is the caller's.
        if getattr(error, "obj", None) is not record:
            raise
        raise InvalidRecordError(
            f"record {builder.count} is of type {type(record).__name__}, without the attribute {error.name!r}; "
            f"pass records as records.BatchRecord(offset, timestamp, key, value)"
        ) from None
    return bytes(builder.close(base_offset=base_offset))
