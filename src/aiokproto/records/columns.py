"""Batches as columns, without a Python object per record. Needs numpy, and pyarrow for Arrow: the ``arrow`` extra.

All batches, for example a partition's batches in one Fetch response, are read in a single pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, zip_longest
from typing import TYPE_CHECKING, Any

from aiokproto.accelerator import has_compiled_form
from aiokproto.errors import CorruptRecordError, DecodeError
from aiokproto.records.batch import HEADER, TIMESTAMP_TYPE, RecordBatch
from aiokproto.records.compression import Bytes
from aiokproto.records.record import MAX_RECORD, check_headers, read_headers
from aiokproto.records.scan import Span, scan, spans_of
from aiokproto.records.writer import encode_headers
from aiokproto.types import Header

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from aiokproto.records.scan import Spans

    Int64s = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]

MAX_DATA = (1 << 31) - 1
"""Maximum number of bytes that columns can refer to: the offsets of Arrow's binary type are int32."""
_MICROS = 1000
_HEADERS_AT_ONCE = 64 * 1024

Row = tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]


@dataclass(frozen=True)
class BytesColumn:
    """Keys or values: item ``i`` is ``data[start[i]:end[i]]``, or None where ``valid[i]`` is false."""

    data: Bytes
    start: Int64s
    end: Int64s
    valid: Bools

    def __len__(self) -> int:
        return len(self.start)

    def __getitem__(self, index: int) -> bytes | None:
        return bytes(self.data[self.start[index] : self.end[index]]) if self.valid[index] else None

    def take(self, keep: Bools) -> BytesColumn:
        """Return the items where ``keep`` is true."""
        return BytesColumn(self.data, self.start[keep], self.end[keep], self.valid[keep])

    def to_arrow(self) -> Any:
        """Return the column as a ``pyarrow.BinaryArray``. Its bytes are copied once."""
        return binary_array(self.data, self.start, self.end, self.valid)


@has_compiled_form
def binary_array(data: Bytes, start: Int64s, end: Int64s, valid: Bools) -> Any:
    """Return a ``pyarrow.BinaryArray`` of ``data[start:end]``, null where ``valid`` is false. Items are copied once.

    Raises:
        IndexError: An item exceeds the data, which Arrow would not notice.
    """
    import numpy as np
    import pyarrow as pa

    count = len(start)
    # pa.nulls doesn't need buffers. The start and end of a null item are meaningless.
    if not valid.any():
        return pa.nulls(count, pa.binary())
    if outside := (valid & ((start < 0) | (end < start) | (end > len(data)))).nonzero()[0].tolist():
        row = outside[0]
        raise IndexError(f"item {row} spans {start[row]} to {end[row]} of {len(data)} bytes")
    # Interleave starts and ends, which gives the offsets of an array where the gaps between items are items too. Then
    # take every second item, which is a single copy in C++.
    offsets = np.empty(2 * count + 1, np.int32)
    offsets[0:-1:2] = np.where(valid, start, 0)
    offsets[1::2] = np.where(valid, end, 0)
    offsets[-1] = len(data)
    spans = pa.Array.from_buffers(pa.binary(), 2 * count, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    return spans.take(pa.array(np.arange(0, 2 * count, 2, dtype=np.int32), mask=None if valid.all() else ~valid))


@dataclass(frozen=True)
class Columns:
    """The records of one or more batches, in order.

    Attributes:
        offset: Offsets, int64.
        timestamp: Milliseconds since the epoch, int64; -1 if unset.
        timestamp_type: 0 for CreateTime, 1 for LogAppendTime, -1 if there are no timestamps (magic 0), int32.
        key: The keys.
        value: The values.
        header_start: Position of the headers in ``value.data``, int64; only :meth:`headers` parses them.
        header_end: The position where they must end.
        max_record: Maximum size of a record with headers (bytes), where each header adds ``HEADER_WEIGHT``.
    """

    offset: Int64s
    timestamp: Int64s
    timestamp_type: npt.NDArray[np.int32]
    key: BytesColumn
    value: BytesColumn
    header_start: Int64s
    header_end: Int64s
    max_record: int = MAX_RECORD

    def __len__(self) -> int:
        return len(self.offset)

    def between(self, start: int, end: int) -> Columns:
        """Return the records with ``start <= offset < end``. Fetch returns whole batches."""
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
            self.max_record,
        )

    def headers(self) -> list[tuple[Header, ...]]:
        """Return the headers of every record, or an empty tuple if a record has none.

        Raises:
            CorruptRecordError: Headers are damaged, which no other method detects.
        """
        found: list[tuple[Header, ...]] = [()] * len(self)
        for row in self._with_headers():
            found[row] = self._headers_of(row)
        return found

    def _with_headers(self) -> list[int]:
        # A single byte means that the count is 0: most records have no headers.
        rows: list[int] = (self.header_end - self.header_start > 1).nonzero()[0].tolist()
        return rows

    def _headers_of(self, row: int) -> tuple[Header, ...]:
        data = bytes(self.value.data[self.header_start[row] : self.header_end[row]])
        try:
            check_headers(data, self.max_record)
            found, pos = read_headers(data, 0)
            if pos != len(data):
                raise CorruptRecordError(f"they end at byte {pos} of {len(data)}")
        except DecodeError as error:
            raise CorruptRecordError(f"headers of the record at offset {self.offset[row]}: {error}") from None
        return found

    def _headers_to_arrow(self) -> Any:
        """Convert some kilobytes at a time: two bytes of a header become a hundred as objects, but only a few in
        Arrow."""
        import pyarrow as pa

        parts: list[Any] = []
        found: list[tuple[Header, ...] | None] = []
        taken = done = 0
        # Treat the end as a row, so everything after the last row with headers is converted.
        for row in (*self._with_headers(), len(self)):
            # Spark's column contains null, not an empty list, for a record without headers.
            found += [None] * (row - done - len(found))
            if row == len(self) or taken > _HEADERS_AT_ONCE:
                parts.append(pa.array(found, _headers_type()))
                done, taken, found = row, 0, []
            if row < len(self):
                taken += int(self.header_end[row] - self.header_start[row])
                found.append(self._headers_of(row) or None)
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    def to_arrow(
        self, topic: str, partition: int, *, headers: bool = False, columns: Sequence[str] | None = None
    ) -> Any:
        """Return a ``pyarrow.RecordBatch`` with the schema of Spark's Kafka source: see :func:`arrow_schema`.

        A timestamp after the year 294247, which can't be expressed as microseconds in 64 bits, becomes null.

        Args:
            topic: The value of the topic column.
            partition: The value of the partition column.
            headers: Whether to include the headers column.
            columns: The columns to include, by name, in this order; None for all. Other columns aren't converted.

        Raises:
            CorruptRecordError: The headers are included, and are damaged.
            ValueError: A column is unknown, or the topic column would take 2 GiB.
        """
        import numpy as np
        import pyarrow as pa

        count = len(self)
        schema = arrow_schema(headers=headers, columns=columns)
        make: dict[str, Callable[[], Any]] = {
            "key": self.key.to_arrow,
            "value": self.value.to_arrow,
            "topic": lambda: _repeated(topic, count),
            "partition": lambda: pa.array(np.full(count, partition, np.int32)),
            "offset": lambda: pa.array(self.offset),
            "timestamp": self._micros,
            "timestampType": lambda: pa.array(self.timestamp_type),
            "headers": self._headers_to_arrow,
        }
        if not schema.names:
            # An Arrow batch without columns has no rows, but its row count must be the number of records.
            return pa.RecordBatch.from_arrays([make["offset"]()], ["offset"]).select([])
        return pa.RecordBatch.from_arrays([make[name]() for name in schema.names], schema=schema)

    def _micros(self) -> Any:
        import numpy as np
        import pyarrow as pa

        # Test this before the multiplication, which would overflow silently.
        limit = np.iinfo(np.int64).max // _MICROS
        if len(self) and not -limit <= self.timestamp.min() <= self.timestamp.max() <= limit:
            far = (self.timestamp > limit) | (self.timestamp < -limit)
            return pa.array(self.timestamp * _MICROS, pa.int64(), mask=far).cast(_micros_type())
        # Arrow's cast would cost as much as all other numeric columns together.
        return pa.Array.from_buffers(_micros_type(), len(self), [None, pa.py_buffer(self.timestamp * _MICROS)])


def _repeated(text: str, count: int) -> Any:
    """Return a ``pyarrow.StringArray`` of ``count`` copies of a string."""
    import numpy as np
    import pyarrow as pa

    data = text.encode()
    if len(data) * count > MAX_DATA:
        raise ValueError(f"{count} times {text!r} are {len(data) * count} bytes, the limit is {MAX_DATA}")
    ends = np.arange(0, len(data) * count + 1, len(data), dtype=np.int32) if data else np.zeros(count + 1, np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(data * count)])


def arrow_schema(*, headers: bool = False, columns: Sequence[str] | None = None) -> Any:
    """Return the ``pyarrow.Schema`` of :meth:`Columns.to_arrow`, which is also the schema of Spark's own Kafka source.

    Raises:
        ValueError: ``columns`` contains an unknown name, or a name twice.
    """
    return _schema(headers, None if columns is None else tuple(columns))


@lru_cache(maxsize=16)
def _schema(headers: bool, columns: tuple[str, ...] | None) -> Any:
    import pyarrow as pa

    fields = [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", _micros_type()),
        pa.field("timestampType", pa.int32()),
    ]
    if headers or (columns is not None and "headers" in columns):
        fields.append(pa.field("headers", _headers_type()))
    if columns is not None:
        named = {field.name: field for field in fields}
        if unknown := [name for name in columns if name not in named]:
            raise ValueError(f"no column {', '.join(unknown)}: the columns are {', '.join(named)}")
        if len(set(columns)) < len(columns):
            raise ValueError(f"a column is named twice: {', '.join(columns)}")
        fields = [named[name] for name in columns]
    return pa.schema(fields)


def _micros_type() -> Any:
    import pyarrow as pa

    return pa.timestamp("us", tz="UTC")


def _headers_type() -> Any:
    import pyarrow as pa

    return pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))


def joined_arrow(
    batches: Iterable[Any], most: int, *, headers: bool = False, columns: Sequence[str] | None = None
) -> Any:
    """Return Arrow batches with the schema of :func:`arrow_schema` as one batch of at most ``most`` bytes.

    Raises:
        CorruptRecordError: They take more than that.
    """
    import pyarrow as pa

    found: list[Any] = []
    size = 0
    for batch in batches:
        found.append(batch)
        # Don't compute the size of the first batch: most batches are alone, and computing the size takes pyarrow as
        # long as creating a small batch.
        if len(found) > 1:
            size += batch.nbytes if size else sum(batch.nbytes for batch in found)
        if size > most:
            raise CorruptRecordError(
                f"one Arrow batch of these records would take {size} bytes or more, the limit is {most} "
                f"(max_record_bytes): to_arrow_batches() returns several"
            )
    if not found:
        return to_columns(()).to_arrow("", 0, headers=headers, columns=columns)
    if len(found) == 1:
        return found[0]
    if not found[0].schema.names:
        # A table without columns has no rows.
        return pa.RecordBatch.from_arrays([pa.nulls(sum(map(len, found)))], ["none"]).select([])
    return pa.Table.from_batches(found).combine_chunks().to_batches()[0]


def to_columns(batches: Iterable[RecordBatch]) -> Columns:
    """Return the records of all ``batches`` as columns, including control records.

    If any batch has magic 0 or 1, all records are read one at a time, which is many times slower.

    Raises:
        CorruptRecordError: A batch is damaged. Only :meth:`Columns.headers` detects damaged headers.
        UnsupportedCompressionError: A codec is unknown or its library is missing.
        ValueError: The records take 2 GiB or more, the limit of Arrow's binary columns: pass fewer batches.
    """
    # Legacy batches are never empty, and counting them may need decompression. Leave out batches that compaction has
    # emptied; bytes after the last record are an error of the scan.
    chosen = [batch for batch in batches if batch.magic < 2 or batch.count or len(batch.body())]
    if any(batch.magic < 2 for batch in chosen):
        return _read_each(chosen)
    return read_together(chosen)


def read_together(batches: Sequence[RecordBatch], bodies: Sequence[Bytes | None] = ()) -> Columns:
    """Return the records of batches of magic 2 as columns.

    Args:
        batches: The batches.
        bodies: Their decompressed records sections, if the caller already has them.

    Raises:
        CorruptRecordError: A batch is damaged.
        UnsupportedCompressionError: A codec is unknown or its library is missing.
        ValueError: The records take 2 GiB or more.
    """
    try:
        return read_spans(*_gather(batches, bodies), batches[0].max_record if batches else MAX_RECORD)
    except (DecodeError, IndexError) as error:
        # This reads the records one at a time to find the damaged one, for the error message.
        for batch in batches:
            for _ in batch:
                pass
        raise CorruptRecordError(f"record batches from offset {batches[0].base_offset}: {error}") from None


def read_spans(data: Bytes, spans: Spans, max_record: int = MAX_RECORD) -> Columns:
    """Return the records of ``data`` at ``spans``. ``max_record`` is as in :class:`Columns`.

    Raises:
        CorruptRecordError, DecodeError, IndexError: The bytes at a span are not the records that it describes.
    """
    import numpy as np

    fields = scan(data, spans)
    return Columns(
        fields.offset,
        fields.timestamp,
        spans[:, Span._fields.index("timestamp_type")].astype(np.int32).repeat(spans[:, Span._fields.index("records")]),
        BytesColumn(data, fields.key_start, fields.key_end, fields.key_valid),
        BytesColumn(data, fields.value_start, fields.value_end, fields.value_valid),
        fields.header_start,
        fields.header_end,
        max_record,
    )


def _read_each(batches: Sequence[RecordBatch]) -> Columns:
    rows: list[Row] = []
    kinds: list[int] = []
    for batch in batches:
        found = batch.records(row)
        kinds += [batch.timestamp_type] * len(found)
        rows += found
    return columns_of(rows, kinds)


def row(*fields: Any) -> Row:
    """Return a record that :func:`columns_of` accepts."""
    return fields


def columns_of(rows: Sequence[Row], kinds: Sequence[int]) -> Columns:
    """Return records as columns, stored by column: all keys, all values, then the headers.

    Args:
        rows: The records, at least one.
        kinds: The timestamp type of each record.

    Raises:
        ValueError: The records take 2 GiB or more.
    """
    import numpy as np

    offset, timestamp, keys, values, headers = zip(*rows, strict=True)
    key, value = _laid_out(keys), _laid_out(values)
    encoded = _laid_out([encode_headers(pairs) if pairs else None for pairs in headers])
    size = max(len(key.data), len(value.data) + len(encoded.data))
    if size > MAX_DATA:
        raise ValueError(f"{len(rows)} records hold {size} bytes, the limit is {MAX_DATA}")
    return Columns(
        np.array(offset, np.int64),
        np.array(timestamp, np.int64),
        np.array(kinds, np.int32),
        key,
        replace(value, data=b"".join((value.data, encoded.data))),
        len(value.data) + encoded.start,
        len(value.data) + encoded.end,
    )


def _laid_out(items: Sequence[bytes | None]) -> BytesColumn:
    """Return a column with its own buffer and adjacent items."""
    import numpy as np

    sizes = np.array([len(item) if item else 0 for item in items], np.int64)
    ends = sizes.cumsum()
    valid = np.array([item is not None for item in items], np.bool_)
    return BytesColumn(b"".join(filter(None, items)), ends - sizes, ends, valid)


def _gather(batches: Sequence[RecordBatch], bodies: Sequence[Bytes | None] = ()) -> tuple[Bytes, Spans]:
    """Return one buffer with the records of all batches, and the span of each batch.

    If uncompressed batches of one record set already share a buffer, nothing is copied.
    """
    source = batches[0].source if batches else memoryview(b"")
    # Compare identities: these are usually a partition's batches in one Fetch response.
    if len(source) <= MAX_DATA and all(batch.source is source and not batch.attributes & 7 for batch in batches):
        size = HEADER.size
        return source, spans_of([span_of(batch, batch.position + size, len(batch.raw) - size) for batch in batches])
    found = [batch.body() if body is None else body for batch, body in zip_longest(batches, bodies)]
    data = b"".join(found)
    if len(data) > MAX_DATA:
        raise ValueError(f"{len(batches)} batches hold {len(data)} bytes of records, the limit is {MAX_DATA}")
    return data, spans_of(map(span_of, batches, accumulate(map(len, found), initial=0), map(len, found)))


def span_of(batch: RecordBatch, start: int, size: int) -> Span:
    """Return the span of a batch whose records take ``size`` bytes, starting at ``start``."""
    appended = int(batch.attributes & TIMESTAMP_TYPE != 0)
    offset, timestamp = batch.base_offset, batch.base_timestamp
    return Span(start, start + size, batch.count, offset, timestamp, appended, batch.max_timestamp)
