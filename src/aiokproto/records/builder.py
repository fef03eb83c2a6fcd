"""Writing record batches of magic 2, and :func:`encode` for all formats."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from aiokproto.errors import InvalidRecordError
from aiokproto.records import varint
from aiokproto.records.batch import CONTROL, HEADER, LOG_OVERHEAD, TRANSACTIONAL
from aiokproto.records.compression import Compression, compress
from aiokproto.records.legacy_builder import LegacyBuilder
from aiokproto.records.patch import update_crc
from aiokproto.types import Header

_SHORT = varint.SHORT
_VARINTS = varint.VARINTS

_RECORD_OVERHEAD = 5 + 1 + 10 + 5 + 5 + 5 + 5
"""The most that these take: length, attributes, timestamp, offset, key length, value length, header count."""


class RecordLike(Protocol):
    """What :func:`encode` takes: read records of any kind, or anything with these four attributes."""

    @property
    def timestamp(self) -> int: ...
    @property
    def key(self) -> bytes | None: ...
    @property
    def value(self) -> bytes | None: ...
    @property
    def headers(self) -> Sequence[Header]: ...


class BatchBuilder:
    """A batch being filled: each record is written once, in wire format, to where it stays.

    Attributes:
        count: Records so far.
    """

    __slots__ = (
        "_base_sequence",
        "_base_timestamp",
        "_buffer",
        "_compression",
        "_flags",
        "_level",
        "_max_bytes",
        "_max_timestamp",
        "_producer_epoch",
        "_producer_id",
        "count",
    )

    def __init__(
        self,
        *,
        compression: Compression = Compression.NONE,
        level: int | None = None,
        max_bytes: int | None = None,
        magic: int = 2,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
        is_transactional: bool = False,
        is_control: bool = False,
    ) -> None:
        """Begin a batch.

        Args:
            compression: The codec, applied when the batch is closed.
            level: The codec's level; None for its default.
            max_bytes: Size, before compression, that only the first record may exceed; None for no limit.
            magic: The format, 2.
            producer_id: The idempotent producer's id; -1 for none. :meth:`close` takes it too, and the next two.
            producer_epoch: The producer's epoch.
            base_sequence: Sequence number of the first record.
            is_transactional: Whether the records belong to a transaction.
            is_control: Whether this is a control batch.

        Raises:
            ValueError: The magic is not 2.
        """
        if magic != 2:
            raise ValueError(f"batches are written with magic 2, not {magic}")
        self.count = 0
        self._buffer = bytearray(HEADER.size)
        self._compression = compression
        self._level = level
        self._max_bytes = max_bytes
        self._base_timestamp = -1
        self._max_timestamp = -1
        self._producer_id = producer_id
        self._producer_epoch = producer_epoch
        self._base_sequence = base_sequence
        self._flags = compression | (TRANSACTIONAL if is_transactional else 0) | (CONTROL if is_control else 0)

    @property
    def size(self) -> int:
        """Bytes of the batch so far, its header included, before compression."""
        return len(self._buffer)

    def append(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()
    ) -> int | None:
        """Write a record.

        Args:
            timestamp: Milliseconds since the epoch; -1 for none.
            key: The key; any bytes-like.
            value: The value; any bytes-like.
            headers: Keys and values, in order; keys may repeat.

        Returns:
            The record's place in the batch, from 0; None if it does not fit or the batch was closed, and then nothing
            was written. The first record always fits: where it has a limit too, compare its :func:`estimate_size`.

        Raises:
            InvalidRecordError: The timestamp is negative (and not -1), or has more than 64 bits.
            TypeError: The key, the value or a header is not of its type; nothing was written then.
        """
        index = self.count
        if not index:
            _check_timestamp(timestamp)
            self._base_timestamp = timestamp
        delta = timestamp - self._base_timestamp
        if 0 <= delta < _SHORT:
            head = _VARINTS[delta]
        else:
            _check_timestamp(timestamp, delta)
            head = varint.encode(delta)
        head = b"\0" + head + (_VARINTS[index] if index < _SHORT else varint.encode(index))
        if key is None:
            head += b"\x01"
        else:
            size = len(key)
            head += (_VARINTS[size] if size < _SHORT else varint.encode(size)) + key
        if value is None:
            head += b"\x01"
            value = b""
        else:
            size = len(value)
            head += _VARINTS[size] if size < _SHORT else varint.encode(size)
        tail = encode_headers(headers) if headers else b"\0"

        # Joined first: a value of a wrong type has to raise before anything is written.
        record = b"".join((head, value, tail))
        size = len(record)
        length = _VARINTS[size] if size < _SHORT else varint.encode(size)
        buffer = self._buffer
        if index and self._max_bytes is not None and len(buffer) + len(length) + size > self._max_bytes:
            return None
        if timestamp > self._max_timestamp:
            if timestamp > varint.INT64_MAX:
                _check_timestamp(timestamp)
            self._max_timestamp = timestamp
        buffer += length
        buffer += record
        self.count = index + 1
        return index

    def close(
        self,
        *,
        base_offset: int = 0,
        producer_id: int | None = None,
        producer_epoch: int | None = None,
        base_sequence: int | None = None,
    ) -> bytearray:
        """Compress the records, write the header and give out the batch; the builder is done then.

        This is the costly part and touches nothing but the builder, so it may run in a thread.

        Args:
            base_offset: Offset of the first record; brokers set their own.
            producer_id: Takes the place of what the builder began with; so do epoch and sequence.
            producer_epoch: The producer's epoch.
            base_sequence: Sequence number of the first record.

        Raises:
            InvalidRecordError: There is no record, or the batch was closed before.
            UnsupportedCompressionError: The codec's library is not installed.
        """
        batch = self._buffer
        if not batch or not self.count:
            raise InvalidRecordError("the batch has no records" if batch else "the batch was closed before")
        self._buffer = bytearray()
        self._max_bytes = 0
        if self._compression:
            with memoryview(batch) as view:
                packed = compress(self._compression, view[HEADER.size :], self._level)
            del batch[HEADER.size :]
            batch += packed
        fields = (
            self._flags,
            self.count - 1,
            self._base_timestamp,
            self._max_timestamp,
            self._producer_id if producer_id is None else producer_id,
            self._producer_epoch if producer_epoch is None else producer_epoch,
            self._base_sequence if base_sequence is None else base_sequence,
            self.count,
        )
        length = len(batch) - LOG_OVERHEAD
        HEADER.pack_into(batch, 0, base_offset, length, -1, 2, 0, *fields)
        update_crc(batch)
        return batch


def _check_timestamp(timestamp: int, delta: int = 0) -> None:
    if not -1 <= timestamp <= varint.INT64_MAX or delta > varint.INT64_MAX:
        raise InvalidRecordError(f"timestamp {timestamp} is neither -1 nor milliseconds since the epoch in 63 bits")


def encode_headers(headers: Sequence[Header]) -> bytes:
    """Headers as a record holds them, their count first."""
    parts = [varint.encode(len(headers))]
    for key, value in headers:
        name = key.encode()
        parts += (varint.encode(len(name)), name)
        parts += (varint.encode(-1),) if value is None else (varint.encode(len(value)), value)
    return b"".join(parts)


def estimate_size(key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()) -> int:
    """An upper bound of the bytes that a record adds to a batch, before compression."""
    size = _RECORD_OVERHEAD
    if key is not None:
        size += len(key)
    if value is not None:
        size += len(value)
    for name, content in headers:
        # A character takes at most four bytes of UTF-8, each length at most five.
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
    """Write ``records`` as one batch, numbered from ``base_offset``; offsets they may have are not looked at.

    Args:
        records: At least one.
        magic: The format: 2, or 0 or 1 for a message set as Kafka before 0.11 has it. Those have no headers and no
            producers, magic 0 no timestamps either.
        compression: none, gzip, snappy, lz4 or (magic 2 only) zstd.
        level: The codec's level; None for its default.
        base_offset: Offset of the first record; brokers set their own.
        producer_id: The idempotent producer's id; -1 for none.
        producer_epoch: The producer's epoch.
        base_sequence: Sequence number of the first record.
        is_transactional: Whether the records belong to a transaction.

    Raises:
        InvalidRecordError: There is no record, or one has an unusable timestamp, or headers where there can be none.
        UnsupportedCompressionError: The codec is unknown, not one of the magic, or its library is not installed.
        ValueError: The magic is not 0, 1 or 2, or cannot carry producer or transaction.
    """
    codec = compression if isinstance(compression, Compression) else Compression.parse(compression)
    builder: BatchBuilder | LegacyBuilder
    if magic in (0, 1):
        if (producer_id, producer_epoch, base_sequence, is_transactional) != (-1, -1, -1, False):
            raise ValueError(f"magic {magic} has neither producer ids nor transactions")
        builder = LegacyBuilder(magic, compression=codec, level=level)
    else:
        builder = BatchBuilder(
            compression=codec,
            level=level,
            magic=magic,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=is_transactional,
        )
    for record in records:
        builder.append(record.timestamp, record.key, record.value, record.headers)
    return bytes(builder.close(base_offset=base_offset))
