"""One record inside a batch of magic 2, and the loop that reads all records of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from aiokproto.accelerator import has_compiled_form
from aiokproto.errors import CorruptRecordError, DecodeError
from aiokproto.records.varint import INT64_MAX, read_unsigned, read_varint
from aiokproto.types import Header, Ownership, Record, TimestampType

T = TypeVar("T")

Make = Callable[[int, int, bytes | None, bytes | None, tuple[Header, ...]], T]
"""Builds a record: called with offset, timestamp, key, value and headers."""

MAX_RECORD = 50 * 1024 * 1024
"""Default limit, in bytes, for one record, where each header adds :data:`HEADER_WEIGHT`: 50 MiB.

That's as much as a broker sends in one response by default (``fetch.max.bytes``), and fifty times the default limit of
what it stores (``message.max.bytes``).
"""

RecordsHeader = tuple[int, int, int | None, int]
"""What the header of a batch says about its records: the base of the offset deltas; the base of the timestamp deltas
(ms); the timestamp of every record if the broker sets it (LogAppendTime), or None; and the number of records."""

HEADER_WEIGHT = 192
"""Maximum bytes of memory that a header's objects take, not counting its content. In a batch it can take two bytes."""

# Within these limits, no two-byte timestamp delta or 32-bit offset delta can overflow int64.
_SAFE_TIMESTAMP = INT64_MAX - (1 << 13)
_SAFE_OFFSET = INT64_MAX - (1 << 31)
_NO_LIMIT = 1 << 62


@has_compiled_form
class BatchRecord:
    """A record as stored in its batch.

    Attributes:
        offset: The offset in the partition.
        timestamp: Milliseconds since the epoch; -1 if unset.
        key: The key, or None.
        value: The value, or None (a tombstone).
        headers: The headers in order, with repeated keys; empty if there are none.
    """

    __slots__ = ("headers", "key", "offset", "timestamp", "value")

    def __init__(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: tuple[Header, ...] = (),
    ) -> None:
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, type(self)):
            return NotImplemented
        return (
            self.offset == other.offset
            and self.timestamp == other.timestamp
            and self.key == other.key
            and self.value == other.value
            and self.headers == other.headers
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return (
            f"BatchRecord(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, "
            f"value={self.value!r}, headers={self.headers!r})"
        )


@has_compiled_form
class RecordMaker:
    """A `Make` for :func:`read_records` that creates :class:`~aiokproto.types.Record` objects for one batch."""

    __slots__ = ("_leader_epoch", "_ownership", "_partition", "_timestamp_type", "_topic")

    def __init__(
        self,
        topic: str,
        partition: int,
        timestamp_type: TimestampType,
        leader_epoch: int,
        ownership: Ownership | None = None,
    ) -> None:
        """Set the attributes that all records of the batch share: see :class:`~aiokproto.types.Record`."""
        self._topic = topic
        self._partition = partition
        self._timestamp_type = timestamp_type
        self._leader_epoch = leader_epoch
        self._ownership = ownership

    def __call__(
        self, offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: tuple[Header, ...]
    ) -> Record:
        """Return a record."""
        record: Record = Record(
            self._topic,
            self._partition,
            offset,
            timestamp,
            key,
            value,
            headers,
            self._timestamp_type,
            self._leader_epoch,
        )
        record._ownership = self._ownership
        return record


@has_compiled_form
def read_records(
    data: bytes | bytearray | memoryview,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    make: Make[T],
) -> list[T]:
    """Read ``count`` records, which must fill ``data``, the decompressed records section of a batch.

    It reads all records at once; :mod:`~aiokproto.records.slices` reads sections of any size.

    Args:
        data: The records; any bytes-like object.
        count: The number of records.
        base_offset: The base of the offset deltas.
        base_timestamp: The base of the timestamp deltas (ms).
        append_time: The timestamp of every record if the broker sets it (LogAppendTime), or None.
        make: Builds each returned record.

    Raises:
        CorruptRecordError: The bytes are not ``count`` records.
    """
    header = (base_offset, base_timestamp, append_time, count)
    records, pos = _read_slice(data, header, 0, count, make, _NO_LIMIT, _NO_LIMIT)
    if pos != len(data):
        raise CorruptRecordError(f"{count} records end at byte {pos} of {len(data)}")
    return records


@has_compiled_form
def read_slice(
    data: bytes | bytearray | memoryview,
    header: RecordsHeader,
    done: int,
    most: int,
    make: Make[T],
    most_headers: int,
    largest: int,
) -> tuple[list[T], int]:
    """Read some of the records of a batch. ``data`` starts with a record, and contains ``most`` of them.

    It stops before a record that would bring the number of headers above ``most_headers``. The first record is always
    read.

    Args:
        data: The records; any bytes-like object.
        header: What the header of the batch says about its records.
        done: How many of the batch's records come before these.
        most: How many records to read.
        make: Builds each returned record.
        most_headers: Maximum number of headers to read, unless the first record has more.
        largest: Maximum size of a record with headers: its bytes, plus :data:`HEADER_WEIGHT` for each header.

    Returns:
        The records, and the position after the last one.

    Raises:
        CorruptRecordError: The bytes are not such records, or a record exceeds the limit.
    """
    return _read_slice(data, header, done, most, make, most_headers, largest)


def _read_slice(
    data: bytes | bytearray | memoryview,
    header: RecordsHeader,
    done: int,
    most: int,
    make: Make[T],
    most_headers: int,
    largest: int,
) -> tuple[list[T], int]:
    # Indexing and slicing bytes is fastest, and gives the keys and values as bytes.
    if not isinstance(data, bytes):
        data = bytes(data)
    base_offset, base_timestamp, append_time, total = header
    if abs(base_timestamp) > _SAFE_TIMESTAMP or not 0 <= base_offset < _SAFE_OFFSET:
        # Don't do this for other batches: checking every record would slow them down.
        make, append_time = _checked(make, append_time), None
    records: list[T] = []
    try:
        pos = _read_fields(data, most, base_offset, base_timestamp, append_time, make, records, most_headers, largest)
    # The loop doesn't compare positions: if a record is truncated, it runs off the end.
    except IndexError:
        raise CorruptRecordError(f"the bytes end within record {done + len(records)} of {total}") from None
    except DecodeError as error:
        raise CorruptRecordError(f"record {done + len(records)} of {total}: {error}") from None
    return records, pos


def _read_fields(
    data: bytes,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    make: Make[T],
    records: list[T],
    most_headers: int,
    largest: int,
) -> int:
    """Append up to ``count`` records, and return the position after the last one.

    Varints of one and two bytes are read inline: nearly all are that short, and a call would cost more than everything
    else.
    """
    pos = 0
    for _ in range(count):
        start = pos
        if (raw := data[pos]) < 128:
            pos += 1
        elif (high := data[pos + 1]) < 128:
            raw, pos = raw + (high << 7) - 128, pos + 2
        else:
            raw, pos = read_unsigned(data, pos)
        # An odd number is a negative length, so the record can't end at the right position.
        end = -1 if raw & 1 else pos + (raw >> 1)

        pos += 1  # the record's attributes, in which no bit is defined yet
        if (raw := data[pos]) < 128:
            pos += 1
        elif (high := data[pos + 1]) < 128:
            raw, pos = raw + (high << 7) - 128, pos + 2
        else:
            raw, pos = _read_far_timestamp(data, pos, base_timestamp)
        timestamp = base_timestamp + (~(raw >> 1) if raw & 1 else raw >> 1)

        if (raw := data[pos]) < 128:
            pos += 1
        elif (high := data[pos + 1]) < 128:
            raw, pos = raw + (high << 7) - 128, pos + 2
        else:
            raw, pos = read_unsigned(data, pos)
        offset = base_offset + (~(raw >> 1) if raw & 1 else raw >> 1)

        key = value = None
        if (raw := data[pos]) < 128:
            pos += 1
        else:
            raw, pos = read_unsigned(data, pos)
        if not raw & 1:
            # If the end is out of range, the slice is short but doesn't raise. The position then differs from `end`.
            key = data[pos : (pos := pos + (raw >> 1))]
        if (raw := data[pos]) < 128:
            pos += 1
        elif (high := data[pos + 1]) < 128:
            raw, pos = raw + (high << 7) - 128, pos + 2
        else:
            raw, pos = read_unsigned(data, pos)
        if not raw & 1:
            value = data[pos : (pos := pos + (raw >> 1))]

        headers: tuple[Header, ...] = ()
        if data[pos]:
            # Count them before reading them: two bytes of a header become a hundred.
            many = raw >> 1 if (raw := data[pos]) < 128 and not raw & 1 else read_varint(data, pos)[0]
            if (size := end - start + many * HEADER_WEIGHT) > largest:
                raise _too_large(size, many, largest)
            if many > most_headers and records:
                return start
            most_headers -= many
            headers, pos = read_headers(data, pos)
        else:
            pos += 1
        # Lengths inside the record don't have to be checked: a wrong length leads to a different end.
        if pos != end:
            raise CorruptRecordError(f"it ends at byte {pos} but should end at {end}")
        records.append(make(offset, timestamp if append_time is None else append_time, key, value, headers))
    return pos


def check_headers(data: bytes, largest: int) -> None:
    """Raise CorruptRecordError if a record with these headers (in wire format, count first) exceeds a limit."""
    many, _ = read_varint(data, 0)
    if (size := len(data) + many * HEADER_WEIGHT) > largest:
        raise _too_large(size, many, largest)


def _too_large(size: int, headers: int, largest: int) -> CorruptRecordError:
    return CorruptRecordError(
        f"it takes {size} bytes with its {headers} headers, more than the limit of {largest} (max_record_bytes)"
    )


def _read_far_timestamp(data: bytes, pos: int, base_timestamp: int) -> tuple[int, int]:
    raw, pos = read_unsigned(data, pos, 64)
    timestamp = base_timestamp + (raw >> 1 ^ -(raw & 1))
    if not -INT64_MAX - 1 <= timestamp <= INT64_MAX:
        raise CorruptRecordError(f"timestamp {timestamp} does not fit 64 bits")
    return raw, pos


def _checked(make: Make[T], append_time: int | None) -> Make[T]:
    """Wrap ``make`` for a batch so close to the limits of int64 that a short delta may overflow.

    An overflow is damage even if LogAppendTime replaces the timestamp, as in every other batch.
    """

    def checked(offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: tuple[Header, ...]) -> T:
        # Strictly less than the maximum: the next offset must fit into an int64, too.
        if not (-INT64_MAX - 1 <= offset < INT64_MAX and -INT64_MAX - 1 <= timestamp <= INT64_MAX):
            raise CorruptRecordError(f"offset {offset} or timestamp {timestamp} does not fit 64 bits")
        return make(offset, timestamp if append_time is None else append_time, key, value, headers)

    return checked


def read_headers(data: bytes, pos: int) -> tuple[tuple[Header, ...], int]:
    """Read a record's headers at ``pos``. Return them and the position after them, which may exceed ``data``.

    Invalid UTF-8 in keys becomes the replacement character, as in the Java client.
    """
    headers: list[Header] = []
    try:
        count, pos = read_varint(data, pos)
        if count < 0:
            raise CorruptRecordError(f"header count {count}")
        for _ in range(count):
            # Nearly all sizes take one byte, so read that inline.
            if (raw := data[pos]) < 128 and not raw & 1:
                key = data[pos + 1 : (pos := pos + 1 + (raw >> 1))].decode("utf-8", "replace")
            else:
                length, pos = read_varint(data, pos)
                if length < 0:
                    raise CorruptRecordError(f"header key of {length} bytes")
                key = data[pos : (pos := pos + length)].decode("utf-8", "replace")
            if (raw := data[pos]) < 128 and not raw & 1:
                headers.append((key, data[pos + 1 : (pos := pos + 1 + (raw >> 1))]))
            else:
                length, pos = read_varint(data, pos)
                if length < 0:
                    headers.append((key, None))
                else:
                    headers.append((key, data[pos : (pos := pos + length)]))
    except IndexError:
        raise CorruptRecordError(f"the bytes end within header {len(headers)}") from None
    return tuple(headers), pos
