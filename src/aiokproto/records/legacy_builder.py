"""Write message sets of magic 0 and 1, for brokers before 0.11."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence

from aiokproto.errors import InvalidRecordError, UnsupportedCompressionError
from aiokproto.records.batch import LOG_OVERHEAD, TIMESTAMP_TYPE
from aiokproto.records.compression import Compression, compress
from aiokproto.records.lz4_v0 import to_v0
from aiokproto.records.varint import INT64_MAX
from aiokproto.types import Header

_ENTRY = struct.Struct(">qiI")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_HEAD_V0 = struct.Struct(">BB")
_HEAD_V1 = struct.Struct(">BBq")
_WRAPPER = tuple(_ENTRY.size + head.size + 2 * _INT32.size for head in (_HEAD_V0, _HEAD_V1))


class LegacyBuilder:
    """A message set being filled. It has the interface of :class:`~aiokproto.records.builder.BatchBuilder`.

    Attributes:
        count: Number of records so far.
    """

    __slots__ = (
        "_attributes",
        "_buffer",
        "_compression",
        "_level",
        "_log_append_time",
        "_magic",
        "_max_bytes",
        "_max_timestamp",
        "count",
    )

    def __init__(
        self,
        magic: int,
        *,
        compression: str | Compression = Compression.NONE,
        level: int | None = None,
        max_bytes: int | None = None,
        log_append_time: int | None = None,
    ) -> None:
        """Start a message set.

        Args:
            magic: The format: 0 or 1. Magic 0 has no timestamps.
            compression: The codec or its name, applied when the set is closed.
            level: The codec's level, or None for its default.
            max_bytes: Maximum size before compression, which only the first record may exceed. None means no limit.
            log_append_time: In magic 1, the timestamp (ms) for every record, as set by a broker with LogAppendTime.
                None keeps the records' own timestamps.

        Raises:
            UnsupportedCompressionError: The codec is unknown, or zstd, which requires magic 2 (KIP-110).
            ValueError: The magic is neither 0 nor 1, or ``max_bytes`` is not a size.
        """
        if magic not in (0, 1):
            raise ValueError(f"message sets have magic 0 or 1, not {magic}")
        check_limit(max_bytes)
        codec = Compression.parse(compression)
        if codec is Compression.ZSTD:
            raise UnsupportedCompressionError(f"magic {magic} has no zstd compression")
        self.count = 0
        self._magic = magic
        self._compression = codec
        self._level = level
        self._max_bytes = max_bytes
        self._max_timestamp = -1
        self._log_append_time = log_append_time
        self._attributes = TIMESTAMP_TYPE if magic and log_append_time is not None else 0
        # Space for the wrapper message, which close() writes.
        self._buffer = bytearray(_WRAPPER[magic] if codec else 0)

    @property
    def size(self) -> int:
        """Size of the message set so far (bytes before compression), including the wrapper if it will be compressed."""
        return len(self._buffer)

    def append(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()
    ) -> int | None:
        """Write a record.

        Args:
            timestamp: Milliseconds since the epoch; -1 if unset. Magic 0 drops it.
            key: The key; any bytes-like object.
            value: The value; any bytes-like object.
            headers: Must be empty: these formats don't have headers.

        Returns:
            The record's index in the set, starting at 0, or None without writing anything if it does not fit or the set
            is closed. The first record always fits.

        Raises:
            InvalidRecordError: There are headers; or the timestamp is negative (and not -1), or has more than 64 bits.
            TypeError: The key or the value has the wrong type; nothing is written.
        """
        if headers:
            raise InvalidRecordError(f"records of magic {self._magic} cannot have headers")
        if not -1 <= timestamp <= INT64_MAX:
            raise InvalidRecordError(f"timestamp {timestamp} is neither -1 nor milliseconds since the epoch in 63 bits")
        if self._log_append_time is not None:
            timestamp = self._log_append_time
        index = self.count
        entry = self._message(index, self._attributes, timestamp, key, value)
        if index and self._max_bytes is not None and len(self._buffer) + len(entry) > self._max_bytes:
            return None
        self._max_timestamp = max(self._max_timestamp, timestamp)
        self._buffer += entry
        self.count = index + 1
        return index

    def close(self, *, base_offset: int = 0) -> bytearray:
        """Compress the records and return the message set. The builder cannot be used afterwards.

        This is the expensive part. It uses only the builder's own state, so it can run in a thread.

        Args:
            base_offset: Offset of the first record. Brokers assign their own.

        Raises:
            InvalidRecordError: The builder has no records, or is already closed.
            UnsupportedCompressionError: The codec's library is not installed.
        """
        data = self._buffer
        if not self.count:
            raise InvalidRecordError("the message set has no records")
        if not data:
            raise InvalidRecordError("the message set was closed before")
        self._buffer = bytearray()
        # Nothing more is appended to a closed set: only the first record always fits, and it's already in the set.
        self._max_bytes = 0
        start = _WRAPPER[self._magic] if self._compression else 0
        # The messages of a compressed set are numbered from 0 in magic 1.
        if base_offset and not (self._magic and self._compression):
            _renumber(data, start, base_offset)
        if not self._compression:
            return data
        with memoryview(data) as view:
            packed = compress(self._compression, view[start:], self._level)
        if self._compression is Compression.LZ4 and not self._magic:
            packed = to_v0(packed)
        attributes = self._attributes | self._compression
        # The wrapper has the offset of its last message and, in magic 1, the greatest timestamp.
        return bytearray(self._message(base_offset + self.count - 1, attributes, self._max_timestamp, None, packed))

    def _message(
        self,
        offset: int,
        attributes: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | bytearray | memoryview | None,
    ) -> bytes:
        head = _HEAD_V1.pack(1, attributes, timestamp) if self._magic else _HEAD_V0.pack(0, attributes)
        key_size = _INT32.pack(-1 if key is None else len(key))
        value_size = _INT32.pack(-1 if value is None else len(value))
        # Join the parts before writing anything, so a wrong type raises without side effects.
        message = b"".join((head, key_size, key or b"", value_size, value or b""))
        return _ENTRY.pack(offset, len(message) + 4, zlib.crc32(message)) + message


def check_limit(max_bytes: int | None) -> None:
    """Raise ValueError unless this is a valid limit for a builder."""
    if max_bytes is not None and (not isinstance(max_bytes, int) or max_bytes < 0):
        raise ValueError(f"max_bytes={max_bytes!r}: expected a number of bytes, or None for no limit")


def _renumber(data: bytearray, pos: int, offset: int) -> None:
    while pos < len(data):
        _INT64.pack_into(data, pos, offset)
        offset += 1
        pos += LOG_OVERHEAD + _INT32.unpack_from(data, pos + _INT64.size)[0]
