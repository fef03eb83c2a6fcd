"""Write records into the buffer of their batch. Each byte is written once, where it will stay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from aiokproto.accelerator import has_compiled_form
from aiokproto.errors import InvalidRecordError
from aiokproto.records import varint
from aiokproto.records.batch import HEADER
from aiokproto.types import Header

_SHORT = varint.SHORT
_VARINTS = varint.VARINTS


@has_compiled_form
class RecordWriter:
    """An open batch of magic 2: space for its header, and its records in wire format.

    Attributes:
        count: Number of records so far.
        size: Size of the batch so far (bytes), including its header; 0 after :meth:`take`.
        base_timestamp: The base of the timestamp deltas (ms): the first record's timestamp by default.
        max_timestamp: The greatest timestamp (ms), or -1.
        max_bytes: Maximum size of the batch, which only the first record may exceed.
    """

    __slots__ = ("_based", "_buffer", "base_timestamp", "count", "max_bytes", "max_timestamp")

    def __init__(self, max_bytes: int | None = None, base_timestamp: int | None = None) -> None:
        """Start a batch. If ``max_bytes`` is None, there's no limit.

        Raises:
            InvalidRecordError: The base timestamp is negative (and not -1), or has more than 64 bits.
        """
        self.count = 0
        self.max_bytes = varint.INT64_MAX if max_bytes is None else max_bytes
        self.max_timestamp = -1
        self.base_timestamp = -1 if base_timestamp is None else base_timestamp
        _check_timestamp(self.base_timestamp)
        self._based = base_timestamp is not None
        # The buffer has room for the header, so records don't have to move when it's written.
        self._buffer = bytearray(HEADER.size)

    @property
    def size(self) -> int:
        return len(self._buffer)

    def __reduce__(self) -> NoReturn:
        # Two copies would continue the same batch. With the same producer id they would have the same sequence numbers.
        raise TypeError("an open batch can be neither copied nor pickled")

    def append(
        self, timestamp: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()
    ) -> int | None:
        """Write a record.

        Args:
            timestamp: Milliseconds since the epoch; -1 if unset.
            key: The key; any bytes-like object.
            value: The value; any bytes-like object.
            headers: Keys and values, in order; keys may repeat.

        Returns:
            The record's index in the batch, starting at 0, or None without writing anything if it doesn't fit or the
            batch is closed. The first record always fits, so if it must not exceed a limit, check its `estimate_size`.

        Raises:
            InvalidRecordError: The timestamp is negative (and not -1), or has more than 64 bits.
            TypeError: The key, the value or a header has the wrong type; nothing is written.
        """
        index = self.count
        # The first record sets the base, unless a delete horizon has already set it (KIP-534).
        if index or self._based:
            base = self.base_timestamp
        else:
            _check_timestamp(timestamp)
            base = timestamp
        delta = timestamp - base
        if 0 <= delta < _SHORT and timestamp <= varint.INT64_MAX:
            head = _VARINTS[delta]
        else:
            _check_timestamp(timestamp, delta)
            head = varint.encode(delta)
        head = b"\0" + head + (_VARINTS[index] if index < _SHORT else varint.encode(index))
        if key is None:
            head += b"\x01"
        else:
            if key.__class__ is not bytes:
                key = plain(key)
            size = len(key)
            head += (_VARINTS[size] if size < _SHORT else varint.encode(size)) + key
        if value is None:
            head += b"\x01"
            value = b""
        else:
            if value.__class__ is not bytes:
                value = plain(value)
            size = len(value)
            head += _VARINTS[size] if size < _SHORT else varint.encode(size)
        tail = encode_headers(headers) if headers else b"\0"

        size = len(head) + len(value) + len(tail)
        length = _VARINTS[size] if size < _SHORT else varint.encode(size)
        buffer = self._buffer
        # The first record (index 0) always fits. Otherwise a record larger than the limit could never be written.
        if index and len(buffer) + len(length) + size > self.max_bytes:
            return None
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.base_timestamp = base
        # Append last, in one step, so an earlier error leaves the batch unchanged.
        buffer += b"".join((length, head, value, tail))
        self.count = index + 1
        return index

    def take(self) -> bytearray:
        """Close the batch and return its bytes.

        Raises:
            InvalidRecordError: There are no records, or the batch is already closed.
        """
        batch = self._buffer
        if not self.count:
            raise InvalidRecordError("the batch has no records")
        if not batch:
            raise InvalidRecordError("the batch was closed before")
        self._buffer = bytearray()
        # This makes append() return None, without needing a test for it.
        self.max_bytes = 0
        return batch


@has_compiled_form
def encode_headers(headers: Sequence[Header]) -> bytes:
    """Return headers in wire format, starting with their count.

    Raises:
        TypeError: A key is not a string, or a value is neither bytes-like nor None.
    """
    parts = [varint.encode(len(headers))]
    for key, value in headers:
        if not isinstance(key, str):
            raise TypeError(f"a header key must be a string, not {type(key).__name__}")
        name = key.encode()
        parts += (varint.encode(len(name)), name)
        if value is None:
            parts.append(varint.encode(-1))
        else:
            content = plain(value)
            parts += (varint.encode(len(content)), content)
    return b"".join(parts)


@has_compiled_form
def plain(content: bytes) -> bytes:
    """Return the bytes of any bytes-like object, whatever its item size.

    Raises:
        TypeError: The object is not bytes-like.
    """
    if content.__class__ is bytes:
        return content
    try:
        return bytes(memoryview(content))
    except TypeError:
        raise TypeError(f"expected bytes or None, got {type(content).__name__}") from None


def _check_timestamp(timestamp: int, delta: int = 0) -> None:
    if not -1 <= timestamp <= varint.INT64_MAX or delta > varint.INT64_MAX:
        raise InvalidRecordError(f"timestamp {timestamp} is neither -1 nor milliseconds since the epoch in 63 bits")
