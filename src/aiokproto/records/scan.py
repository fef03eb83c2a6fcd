"""Positions of the fields of many records, found in one pass without Python objects per record. Needs numpy.

A walk finds the start of each record; then each field is read for all records at once. Positions aren't trusted: numpy
checks each index, and every record has to end where the next one starts.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from aiokproto.accelerator import has_compiled_form
from aiokproto.errors import CorruptRecordError, DecodeError
from aiokproto.records.compression import Bytes
from aiokproto.records.varint import read_unsigned

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]
    Bytes8 = npt.NDArray[np.uint8]
    Bools = npt.NDArray[np.bool_]
    Spans = npt.NDArray[np.int64]
    """A row for each batch. The columns are the fields of :class:`Span`."""

# Attributes, timestamp and offset delta, two lengths and the header count take at least one byte each.
_SMALLEST_RECORD = 6
# The maximum size of a 32-bit varint, in bytes.
_LONGEST_LENGTH = 5
# After this many records of one size, it pays to search for more with numpy.
_STREAK = 16


class Span(NamedTuple):
    """The records of a batch.

    Attributes:
        start: Position of the first record.
        stop: The position where the last record must end.
        records: The number of records.
        base_offset: The base of the offset deltas.
        base_timestamp: The base of the timestamp deltas (ms).
        timestamp_type: 0 for CreateTime, 1 for LogAppendTime.
        append_time: The timestamp (ms) of every record if the broker sets it (LogAppendTime).
    """

    start: int
    stop: int
    records: int
    base_offset: int
    base_timestamp: int
    timestamp_type: int
    append_time: int


def spans_of(spans: Iterable[Span]) -> Spans:
    """Return the table that :func:`scan` takes."""
    import numpy as np

    return np.array(list(spans), np.int64).reshape(-1, len(Span._fields))


class Fields(NamedTuple):
    """The fields of records and their positions, as arrays with an item for each record.

    Attributes:
        offset: Offsets.
        timestamp: Milliseconds since the epoch.
        key_start: Start of each key.
        key_end: End of each key.
        key_valid: Whether the record has a key.
        value_start: Start of each value.
        value_end: End of each value.
        value_valid: Whether the record has a value.
        header_start: Start of each record's headers, which begin with their count; they are not parsed.
        header_end: The position where they must end.
    """

    offset: Int64s
    timestamp: Int64s
    key_start: Int64s
    key_end: Int64s
    key_valid: Bools
    value_start: Int64s
    value_end: Int64s
    value_valid: Bools
    header_start: Int64s
    header_end: Int64s


@has_compiled_form
def whole_records(data: Bytes, pos: int, size: int, most: int) -> tuple[int, int, int]:
    """Count the whole records in ``size`` bytes of ``data``, starting at ``pos``; at most ``most``.

    Returns:
        The number of records; the position after them; and the end of the next record, which may be beyond the data. If
        even its length is incomplete, this is the position one byte after the data.

    Raises:
        CorruptRecordError: The length of a record is invalid.
    """
    count = 0
    stop = min(len(data), pos + size)
    while True:
        try:
            raw, end = read_unsigned(data, pos)
        except DecodeError as error:
            if len(data) - pos >= _LONGEST_LENGTH:
                raise CorruptRecordError(f"the length of a record: {error}") from None
            return count, pos, len(data) + 1
        if raw & 1 or raw < 2 * _SMALLEST_RECORD:
            raise CorruptRecordError(f"a record has length {raw >> 1 ^ -(raw & 1)}")
        end += raw >> 1
        if end > stop or count == most:
            return count, pos, end
        count += 1
        pos = end


@has_compiled_form
def scan(data: Bytes, spans: Spans) -> Fields:
    """Find the fields of all records of magic 2 in ``data``.

    Raises:
        CorruptRecordError, DecodeError, IndexError: The bytes at a span are not the records that it describes.
    """
    import numpy as np

    buffer = np.frombuffer(data, np.uint8)
    _, _, counts, base_offset, base_timestamp, appended, append_time = spans.T
    # This part is sequential: each record starts where the one before ends.
    starts = np.frombuffer(_walk(data, buffer, spans), np.int64)

    raw, pos = _varints(buffer, starts)
    # The walk has already rejected negative lengths.
    ends = pos + (raw >> np.uint64(1)).view(np.int64)
    delta, pos = _varints(buffer, pos + 1, 64)
    timestamp = _add(base_timestamp.repeat(counts), _zigzag(delta))
    delta, pos = _varints(buffer, pos)
    offset = _add(base_offset.repeat(counts), _zigzag(delta))
    key_start, key_end, key_valid = _bytes(buffer, pos)
    value_start, value_end, value_valid = _bytes(buffer, key_end)
    # A record without headers ends with their count, which is one zero byte.
    if ((buffer[value_end] == 0) != (value_end + 1 == ends)).any() or (value_end >= ends).any():
        raise CorruptRecordError("records do not end with their headers")

    if appended.any():
        timestamp = np.where(appended.repeat(counts) != 0, append_time.repeat(counts), timestamp)
    return Fields(
        offset, timestamp, key_start, key_end, key_valid, value_start, value_end, value_valid, value_end, ends
    )


def _walk(data: Bytes, buffer: Bytes8, spans: Spans) -> array[int]:
    """Return the start of each record of each batch. Check that the count is right and the records fill the batch."""
    starts = array("q")
    add = starts.append
    for pos, stop, count in spans[:, :3].tolist():
        whole = len(starts) + count
        previous = streak = 0
        while pos < stop:
            add(pos)
            at = pos
            if (raw := data[pos]) < 128:
                pos += 1
            elif (high := data[pos + 1]) < 128:
                raw += (high << 7) - 128
                pos += 2
            else:
                raw, pos = read_unsigned(data, pos)
            if raw & 1 or raw < 2 * _SMALLEST_RECORD:
                raise CorruptRecordError(f"a record has length {raw >> 1 ^ -(raw & 1)}")
            pos += raw >> 1
            if raw != previous:
                previous = raw
                streak = 0
                continue
            streak += 1
            if streak == _STREAK:
                streak = 0
                pos = _skip_run(buffer, starts, at, pos, stop)
        if pos != stop or len(starts) != whole:
            raise CorruptRecordError(f"the header has {count} records, the batch has not")
    return starts


def _skip_run(buffer: Bytes8, starts: array[int], at: int, pos: int, stop: int) -> int:
    """Add the records, starting at ``pos``, that have the same size as the one at ``at``. Return where they end.

    If the same length appears one record's size later, a record of that size starts there too.
    """
    import numpy as np

    size = pos - at
    width = 1
    while buffer[at + width - 1] > 127:
        width += 1
    # Start small, since a run may end soon, and quadruple each time while the run lasts.
    rows = 64
    while (rows := min(rows, (stop - pos) // size)) > 0:
        table = buffer[pos : pos + rows * size].reshape(rows, size)
        same = table[:, 0] == buffer[at]
        for column in range(1, width):
            same &= table[:, column] == buffer[at + column]
        run = rows if same.all() else int(same.argmin())
        starts.frombytes(np.arange(pos, pos + run * size, size, dtype=np.int64).tobytes())
        pos += run * size
        if run < rows:
            break
        rows *= 4
    return pos


def _varints(buffer: Bytes8, pos: Int64s, bits: int = 32) -> tuple[npt.NDArray[np.uint64], Int64s]:
    """Return the unsigned varints at each position, and the positions after them."""
    import numpy as np

    byte = buffer[pos]
    more = byte > 127
    pos = pos + 1
    # If all take one byte, as lengths usually do, the loop isn't needed.
    if not more.any():
        return byte.astype(np.uint64), pos
    # Read the second byte for all, which is faster than selecting the varints that have one. A varint is never the last
    # byte of a record, so there's always another byte.
    second = buffer[pos]
    raw = ((byte & 127) | (((second & 127) * more).astype(np.uint16) << 7)).astype(np.uint64)
    pos += more
    rows = (more & (second > 127)).nonzero()[0]
    shift = 14
    while rows.size:
        if shift >= bits:
            raise CorruptRecordError(f"varint of more than {bits} bits")
        byte = buffer[pos[rows]]
        # The last byte has only a few bits: four of 32, one of 64.
        if bits - shift < 7 and (byte >> (bits - shift)).any():
            raise CorruptRecordError(f"varint of more than {bits} bits")
        raw[rows] |= (byte & 127).astype(np.uint64) << np.uint64(shift)
        pos[rows] += 1
        rows = rows[byte > 127]
        shift += 7
    return raw, pos


def _zigzag(raw: npt.NDArray[np.uint64]) -> Int64s:
    import numpy as np

    signs = (raw & np.uint64(1)).view(np.int64)
    numbers: Int64s = (raw >> np.uint64(1)).view(np.int64) ^ -signs
    return numbers


def _bytes(buffer: Bytes8, pos: Int64s) -> tuple[Int64s, Int64s, Bools]:
    """Return start and end of the keys or values whose lengths are at the positions, and which of them aren't null."""
    import numpy as np

    raw, start = _varints(buffer, pos)
    valid = (raw & np.uint64(1)) == 0
    return start, start + (raw >> np.uint64(1)).view(np.int64) * valid, valid


def _add(base: Int64s, delta: Int64s) -> Int64s:
    total = base + delta
    # The sum has overflowed if two numbers with the same sign have a sum with the other sign.
    if (((base ^ total) & (delta ^ total)) < 0).any():
        raise CorruptRecordError("an offset or timestamp does not fit 64 bits")
    return total
