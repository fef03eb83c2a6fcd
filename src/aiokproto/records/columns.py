"""Batches as columns, without a Python object per record. Needs numpy, and for Arrow pyarrow: the ``arrow`` extra.

All batches given, such as those of a partition in one Fetch response, are read in a single vectorised pass: a walk
finds where each record starts, then each field is read for all records at once. Positions are never trusted: numpy
checks each index, and every record has to end where the next one starts.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from aiokproto.errors import CorruptRecordError, DecodeError
from aiokproto.records.batch import HEADER, TIMESTAMP_TYPE, RecordBatch
from aiokproto.records.builder import encode_headers
from aiokproto.records.record import read_headers
from aiokproto.records.varint import read_unsigned
from aiokproto.types import Header

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]
    Bytes8 = npt.NDArray[np.uint8]
    Bools = npt.NDArray[np.bool_]

_MAX_DATA = (1 << 31) - 1
# Attributes, timestamp and offset delta, two lengths and the header count take a byte each.
_SMALLEST_RECORD = 6
# So many records of one size in a row make it worth to look for more of them with numpy.
_STREAK = 16
_MICROS = 1000


@dataclass(frozen=True)
class BytesColumn:
    """Keys or values: item ``i`` is ``data[start[i]:end[i]]``, or None where ``valid[i]`` is false."""

    data: bytes | memoryview
    start: Int64s
    end: Int64s
    valid: Bools

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, index: int) -> bytes | None:
        return bytes(self.data[self.start[index] : self.end[index]]) if self.valid[index] else None

    def take(self, keep: Bools) -> BytesColumn:
        """The items where ``keep`` is true."""
        return BytesColumn(self.data, self.start[keep], self.end[keep], self.valid[keep])

    def to_arrow(self) -> Any:
        """The column as a ``pyarrow.BinaryArray``, its bytes copied once."""
        import numpy as np
        import pyarrow as pa

        count = len(self)
        if not self.valid.any():
            return pa.nulls(count, pa.binary())
        # Start and end of every item are the offsets of an array that has what lies between items as items too:
        # taking every second one is a single copy in C++.
        offsets = np.empty(2 * count + 1, np.int32)
        offsets[0:-1:2] = self.start
        offsets[1::2] = self.end
        offsets[-1] = self.end[-1]
        spans = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(self.data)])
        indices = pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=None if self.valid.all() else ~self.valid)
        return spans.take(indices)


@dataclass(frozen=True)
class Columns:
    """The records of one or more batches, in order.

    Attributes:
        offset: Offsets, int64.
        timestamp: Milliseconds since the epoch, int64; -1 where there is none.
        timestamp_type: 0 for CreateTime, 1 for LogAppendTime, -1 where there is none (magic 0), int32.
        key: The keys.
        value: The values.
        header_start: Where in ``value.data`` the headers lie, int64; read when asked for.
        header_end: Where they must end.
    """

    offset: Int64s
    timestamp: Int64s
    timestamp_type: npt.NDArray[np.int32]
    key: BytesColumn
    value: BytesColumn
    header_start: Int64s
    header_end: Int64s

    def __len__(self) -> int:
        return len(self.offset)

    def between(self, start: int, end: int) -> Columns:
        """The records from offset ``start`` up to, and without, ``end``: a fetch answers with whole batches."""
        keep = (self.offset >= start) & (self.offset < end)
        if keep.all():
            return self
        return Columns(
            self.offset[keep],
            self.timestamp[keep],
            self.timestamp_type[keep],
            self.key.take(keep),
            self.value.take(keep),
            self.header_start[keep],
            self.header_end[keep],
        )

    def headers(self) -> list[tuple[Header, ...]]:
        """The headers of every record; an empty tuple where there are none.

        Raises:
            CorruptRecordError: They are damaged, which nothing else here notices.
        """
        found: list[tuple[Header, ...]] = [()] * len(self)
        for row in (self.header_end - self.header_start > 1).nonzero()[0].tolist():
            data = bytes(self.value.data[self.header_start[row] : self.header_end[row]])
            try:
                found[row], pos = read_headers(data, 0)
                if pos != len(data):
                    raise CorruptRecordError(f"they end at byte {pos} of {len(data)}")
            except DecodeError as error:
                raise CorruptRecordError(f"headers of the record at offset {self.offset[row]}: {error}") from None
        return found

    def to_arrow(self, topic: str, partition: int, *, headers: bool = False) -> Any:
        """A ``pyarrow.RecordBatch`` with the schema of Spark's own Kafka source, see :func:`arrow_schema`.

        A timestamp beyond what microseconds in 64 bits can express, the year 294247, becomes null.

        Args:
            topic: What the topic column says.
            partition: What the partition column says.
            headers: Whether to have the headers column.

        Raises:
            CorruptRecordError: Headers are asked for and damaged.
        """
        import numpy as np
        import pyarrow as pa

        count = len(self)
        limit = np.iinfo(np.int64).max // _MICROS
        far = (self.timestamp > limit) | (self.timestamp < -limit)
        micros = self.timestamp * _MICROS
        arrays = [
            self.key.to_arrow(),
            self.value.to_arrow(),
            pa.repeat(pa.scalar(topic, pa.string()), count),
            pa.repeat(pa.scalar(partition, pa.int32()), count),
            pa.array(self.offset),
            pa.array(micros, pa.int64(), mask=far if far.any() else None).cast(pa.timestamp("us", tz="UTC")),
            pa.array(self.timestamp_type),
        ]
        if headers:
            # Spark has null, not an empty list, for a record without headers.
            arrays.append(pa.array([found or None for found in self.headers()], _headers_type()))
        return pa.RecordBatch.from_arrays(arrays, schema=arrow_schema(headers=headers))


def arrow_schema(*, headers: bool = False) -> Any:
    """The ``pyarrow.Schema`` of :meth:`Columns.to_arrow`: what Spark makes of the schema of its own Kafka source."""
    import pyarrow as pa

    fields = [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
    if headers:
        fields.append(pa.field("headers", _headers_type()))
    return pa.schema(fields)


def _headers_type() -> Any:
    import pyarrow as pa

    return pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))


def to_columns(batches: Iterable[RecordBatch]) -> Columns:
    """The records of all ``batches`` as columns; control batches, too, if they are among them.

    With batches of magic 0 or 1 among them, each record is read by itself, which takes many times as long.

    Raises:
        CorruptRecordError: A batch is damaged. Headers are looked at only when they are asked for.
        UnsupportedCompressionError: A codec is unknown or its library is missing.
        ValueError: The records take 2 GiB or more, which Arrow's binary columns cannot hold: give fewer batches.
    """
    # Of legacy batches none is empty, and asking for their count could mean to decompress them.
    chosen = [batch for batch in batches if batch.magic < 2 or batch.count]
    if any(batch.magic < 2 for batch in chosen):
        return _read_each(chosen)
    try:
        return _read(chosen)
    except (DecodeError, IndexError) as error:
        # Reading one by one finds the very record, for the message.
        for batch in chosen:
            batch.records(lambda *_: None)
        raise CorruptRecordError(f"record batches from offset {chosen[0].base_offset}: {error}") from None


def _read(batches: Sequence[RecordBatch]) -> Columns:
    import numpy as np

    data, spans = _gather(batches)
    buffer = np.frombuffer(data, np.uint8)
    counts = np.array([batch.count for batch in batches], np.int64)
    starts = np.frombuffer(_walk(data, buffer, spans, counts.tolist()), np.int64)

    raw, pos = _varints(buffer, starts)
    # The walk has refused negative lengths.
    ends = pos + (raw >> np.uint64(1)).view(np.int64)
    delta, pos = _varints(buffer, pos + 1, 64)
    timestamp = _add(np.array([batch.base_timestamp for batch in batches], np.int64).repeat(counts), _zigzag(delta))
    delta, pos = _varints(buffer, pos)
    offset = _add(np.array([batch.base_offset for batch in batches], np.int64).repeat(counts), _zigzag(delta))
    key, pos = _bytes_column(data, buffer, pos)
    value, pos = _bytes_column(data, buffer, pos)
    # A record without headers ends with their count, a single zero.
    if not (((buffer[pos] == 0) & (pos + 1 == ends)) | ((buffer[pos] != 0) & (pos + 1 < ends))).all():
        raise CorruptRecordError("records do not end with their headers")

    appended = np.array([bool(batch.attributes & TIMESTAMP_TYPE) for batch in batches], np.bool_)
    if appended.any():
        newest = np.array([batch.max_timestamp for batch in batches], np.int64)
        timestamp = np.where(appended.repeat(counts), newest.repeat(counts), timestamp)
    return Columns(offset, timestamp, appended.astype(np.int32).repeat(counts), key, value, pos, ends)


def _read_each(batches: Sequence[RecordBatch]) -> Columns:
    """Columns by way of records, laid out anew: key, value and headers of each, one after the other."""
    import numpy as np

    parts: list[bytes] = []
    numbers: list[tuple[int, int, int, bool, bool]] = []
    for batch in batches:
        kind = batch.timestamp_type
        for record in batch:
            key, value = record.key, record.value
            numbers.append((record.offset, record.timestamp, kind, key is not None, value is not None))
            parts += (key or b"", value or b"", encode_headers(record.headers))
    data = b"".join(parts)
    if len(data) > _MAX_DATA:
        raise ValueError(f"{len(batches)} batches hold {len(data)} bytes of records, the limit is {_MAX_DATA}")
    edges = np.array([0, *accumulate(map(len, parts))], np.int64)
    offset, timestamp, kinds, has_key, has_value = np.ascontiguousarray(np.array(numbers, np.int64).reshape(-1, 5).T)
    key_start, value_start, header_start = (edges[part:-1:3] for part in range(3))
    header_end = edges[3::3]
    return Columns(
        offset,
        timestamp,
        kinds.astype(np.int32),
        BytesColumn(data, key_start, value_start, has_key.astype(np.bool_)),
        BytesColumn(data, value_start, header_start, has_value.astype(np.bool_)),
        header_start,
        header_end,
    )


def _gather(batches: Sequence[RecordBatch]) -> tuple[bytes | memoryview, list[tuple[int, int]]]:
    """One buffer that holds the records of all batches, and from where to where those of each are.

    Batches of one record set, none of them compressed, lie in one buffer already, and nothing is copied.
    """
    source = batches[0].source if batches else memoryview(b"")
    if len(source) <= _MAX_DATA and all(batch.source is source and not batch.attributes & 7 for batch in batches):
        return source, [(batch.position + HEADER.size, batch.position + len(batch.raw)) for batch in batches]
    bodies = [batch.body() for batch in batches]
    data = b"".join(bodies)
    if len(data) > _MAX_DATA:
        raise ValueError(f"{len(batches)} batches hold {len(data)} bytes of records, the limit is {_MAX_DATA}")
    stops = list(accumulate(map(len, bodies)))
    return data, list(zip([0, *stops], stops, strict=False))


def _walk(
    data: bytes | memoryview, buffer: Bytes8, spans: Sequence[tuple[int, int]], counts: Sequence[int]
) -> array[int]:
    """Where each record of each batch starts in ``data``. They are as many as said, and end where the batch does."""
    starts = array("q")
    add = starts.append
    for (pos, stop), count in zip(spans, counts, strict=True):
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
            raise CorruptRecordError(f"{count} records in the header, other ones in the batch")
    return starts


def _skip_run(buffer: Bytes8, starts: array[int], at: int, pos: int, stop: int) -> int:
    """Add the records from ``pos`` on that have the size of the one at ``at``; returns where they end.

    Equal length bytes one record's size on prove that a record of that size starts there too.
    """
    import numpy as np

    size = pos - at
    width = 1
    while buffer[at + width - 1] > 127:
        width += 1
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
    """The unsigned varints at each position, and the positions after them."""
    import numpy as np

    byte = buffer[pos]
    more = byte > 127
    pos = pos + 1
    if not more.any():
        return byte.astype(np.uint64), pos
    raw = (byte & 127).astype(np.uint64)
    rows = more.nonzero()[0]
    shift = 7
    while rows.size:
        if shift >= bits:
            raise CorruptRecordError(f"varint of more than {bits} bits")
        byte = buffer[pos[rows]]
        # The last byte has room for some bits only: four of 32, one of 64.
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


def _bytes_column(data: bytes | memoryview, buffer: Bytes8, pos: Int64s) -> tuple[BytesColumn, Int64s]:
    import numpy as np

    raw, start = _varints(buffer, pos)
    valid = (raw & np.uint64(1)) == 0
    end = start + np.where(valid, (raw >> np.uint64(1)).view(np.int64), 0)
    return BytesColumn(data, start, end, valid), end


def _add(base: Int64s, delta: Int64s) -> Int64s:
    total = base + delta
    # Two numbers of one sign whose sum has the other: it went around.
    if (((base ^ total) & (delta ^ total)) < 0).any():
        raise CorruptRecordError("an offset or timestamp does not fit 64 bits")
    return total
