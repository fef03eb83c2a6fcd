"""One record inside a batch of magic 2, and the loop that reads all records of a batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from aiokproto.accelerator import twin
from aiokproto.errors import CorruptRecordError, DecodeError
from aiokproto.records.uniform import read_uniform
from aiokproto.records.varint import INT64_MAX, read_unsigned, read_varint
from aiokproto.types import Header, Record, TimestampType

T = TypeVar("T")

Make = Callable[[int, int, bytes | None, bytes | None, tuple[Header, ...]], T]
"""Called with offset, timestamp, key, value and headers of each record; what it returns is what the reader returns."""

# Up to these, no delta of two bytes (timestamps) or 32 bits (offsets) can lead out of int64.
_SAFE_TIMESTAMP = INT64_MAX - (1 << 13)
_SAFE_OFFSET = INT64_MAX - (1 << 31)

# Runs of records that are not worth to be looked for; and the most records read without looking for one.
_SHORT_RUN = 16
_LONGEST_WAIT = 1024


@twin
class BatchRecord:
    """A record as its batch holds it.

    Attributes:
        offset: Its offset in the partition.
        timestamp: Milliseconds since the epoch; -1 when it has none.
        key: The key, or None.
        value: The value, or None (a tombstone).
        headers: The headers in order, repeated keys kept; empty when there are none.
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


@twin
class RecordMaker:
    """Makes the records of one batch of a partition: a `Make`, for :func:`read_records`."""

    __slots__ = ("_leader_epoch", "_partition", "_timestamp_type", "_topic")

    def __init__(self, topic: str, partition: int, timestamp_type: TimestampType, leader_epoch: int) -> None:
        """The arguments are what all records of a batch have alike, see :class:`~aiokproto.types.Record`."""
        self._topic = topic
        self._partition = partition
        self._timestamp_type = timestamp_type
        self._leader_epoch = leader_epoch

    def __call__(
        self, offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: tuple[Header, ...]
    ) -> Record:
        """The record."""
        return Record(
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


@twin
def read_records(
    data: bytes | bytearray | memoryview,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    make: Make[T],
) -> list[T]:
    """Read ``count`` records, which must fill ``data``, the decompressed records section of a batch.

    Args:
        data: The records; any bytes-like.
        count: How many there must be.
        base_offset: What offset deltas add to.
        base_timestamp: What timestamp deltas add to.
        append_time: The timestamp of every record where the broker sets it (LogAppendTime), else None.
        make: Builds what is returned for a record.

    Raises:
        CorruptRecordError: The bytes are not ``count`` records.
    """
    if not isinstance(data, bytes):
        data = bytes(data)
    if abs(base_timestamp) > _SAFE_TIMESTAMP or not 0 <= base_offset < _SAFE_OFFSET:
        make = _checked(make)
    records: list[T] = []
    pos = 0
    patience = 1
    try:
        while (left := count - len(records)) > _SHORT_RUN:
            pos = read_uniform(data, pos, left, base_offset, base_timestamp, append_time, make, records)
            # Looking for a run costs as much as reading a few records: where there is none, it is done ever less often.
            found = left - (left := count - len(records))
            patience = 1 if found > _SHORT_RUN else min(2 * patience, _LONGEST_WAIT)
            pos = _read_any(data, pos, min(patience, left), base_offset, base_timestamp, append_time, make, records)
        pos = _read_any(data, pos, left, base_offset, base_timestamp, append_time, make, records)
    except IndexError:
        raise CorruptRecordError(f"the bytes end within record {len(records)} of {count}") from None
    except DecodeError as error:
        raise CorruptRecordError(f"record {len(records)} of {count}: {error}") from None
    if pos != len(data):
        raise CorruptRecordError(f"{count} records end at byte {pos} of {len(data)}")
    return records


def _read_any(
    data: bytes,
    pos: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    append_time: int | None,
    make: Make[T],
    records: list[T],
) -> int:
    """Append ``count`` records of any kind, from ``pos`` on; returns where the last one ends.

    One- and two-byte varints are read in line: nearly all are that short, and a call would cost more than the rest.
    """
    for _ in range(count):
        if (raw := data[pos]) < 128:
            pos += 1
        elif (high := data[pos + 1]) < 128:
            raw, pos = raw + (high << 7) - 128, pos + 2
        else:
            raw, pos = read_unsigned(data, pos)
        # An odd number is a negative length: with it, the record cannot end where it should.
        end = -1 if raw & 1 else pos + (raw >> 1)

        pos += 1  # the record's attributes, of which no bit has a meaning yet
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
            headers, pos = read_headers(data, pos)
        else:
            pos += 1
        # Lengths inside the record need no check of their own: where one is wrong, this is not its end.
        if pos != end:
            raise CorruptRecordError(f"it ends at byte {pos} but should end at {end}")
        records.append(make(offset, timestamp if append_time is None else append_time, key, value, headers))
    return pos


def _read_far_timestamp(data: bytes, pos: int, base_timestamp: int) -> tuple[int, int]:
    raw, pos = read_unsigned(data, pos, 64)
    timestamp = base_timestamp + (raw >> 1 ^ -(raw & 1))
    if not -INT64_MAX - 1 <= timestamp <= INT64_MAX:
        raise CorruptRecordError(f"timestamp {timestamp} does not fit 64 bits")
    return raw, pos


def _checked(make: Make[T]) -> Make[T]:
    """``make`` for a batch so near to the ends of int64 that even a short delta may lead beyond them."""

    def checked(offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: tuple[Header, ...]) -> T:
        if not (abs(offset) <= INT64_MAX and abs(timestamp) <= INT64_MAX):
            raise CorruptRecordError(f"offset {offset} or timestamp {timestamp} does not fit 64 bits")
        return make(offset, timestamp, key, value, headers)

    return checked


def read_headers(data: bytes, pos: int) -> tuple[tuple[Header, ...], int]:
    """Read a record's headers at ``pos``; returns them and the position after them, maybe past the end of ``data``.

    Keys that are no valid UTF-8 get the replacement character, as in the Java client.
    """
    headers: list[Header] = []
    try:
        count, pos = read_varint(data, pos)
        if count < 0:
            raise CorruptRecordError(f"header count {count}")
        for _ in range(count):
            # Nearly all sizes take a byte, which is read in line.
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
