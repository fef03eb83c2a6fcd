"""Arrow tables to records, the reverse of :mod:`~aiokproto.records.columns`. Needs the ``arrow`` extra.

::

    for rows in from_arrow(table, now_ms):
        written = append_rows(builder, rows, rows.indexes())
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from aiokproto.accelerator import has_compiled_form
from aiokproto.errors import InvalidRecordError
from aiokproto.records.builder import RECORD_OVERHEAD
from aiokproto.records.columns import BytesColumn
from aiokproto.records.record import read_headers
from aiokproto.records.writer import RecordWriter, encode_headers

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Int64s = npt.NDArray[np.int64]

COLUMNS = ("key", "value", "headers", "timestamp", "partition")
"""The columns that a table may have when it's written. Only ``value`` is required."""

NO_PARTITION = -1
"""Stands for null in :attr:`Rows.partition`."""


@dataclass(frozen=True)
class Rows:
    """Records to write, as columns that view Arrow's memory. Nothing is copied until it's written.

    Attributes:
        timestamp: Milliseconds since the epoch, int64; -1 if unset.
        key: The keys.
        value: The values.
        headers: Each record's headers in wire format, starting with their count; None if no record has any.
        partition: The partition column, int64, with ``NO_PARTITION`` for null; None if there's no such column.
    """

    timestamp: Int64s
    key: BytesColumn
    value: BytesColumn
    headers: BytesColumn | None
    partition: Int64s | None

    def __len__(self) -> int:
        return len(self.timestamp)

    def indexes(self) -> Int64s:
        """Return the row numbers, in order."""
        import numpy as np

        return np.arange(len(self), dtype=np.int64)

    def sizes(self) -> Int64s:
        """Return an upper bound on the bytes that each row adds to a batch, before compression: see `estimate_size`."""
        import numpy as np

        size: Int64s = np.full(len(self), RECORD_OVERHEAD, np.int64)
        for column in (self.key, self.value, self.headers):
            if column is not None:
                size += np.where(column.valid, column.end - column.start, 0)
        return size


@has_compiled_form
def append_rows(writer: RecordWriter, rows: Rows, indexes: Int64s) -> int:
    """Write rows in order until the batch is full.

    Args:
        writer: The open batch. Its first record always fits, so if it has a limit, check :meth:`Rows.sizes` first.
        rows: The rows.
        indexes: The numbers of the rows to write, int64.

    Returns:
        The number of rows written.

    Raises:
        IndexError: A row with that number does not exist, or its content exceeds the column's data. The rows before it
            are written.
    """
    # Stop at the first row that doesn't fit, and never skip one: the order of the rows is the order of the records.
    for written, row in enumerate(map(int, indexes)):
        if not 0 <= row < len(rows):
            raise IndexError(f"row {row} of {len(rows)} does not exist")
        encoded = None if rows.headers is None else _content(rows.headers, row, "headers")
        headers = read_headers(encoded, 0)[0] if encoded else ()
        key, value = _content(rows.key, row, "key"), _content(rows.value, row, "value")
        if writer.append(int(rows.timestamp[row]), key, value, headers) is None:
            return written
    return len(indexes)


def _content(column: BytesColumn, row: int, name: str) -> bytes | None:
    if column.valid[row] and not 0 <= column.start[row] <= column.end[row] <= len(column.data):
        raise IndexError(f"the {name} of row {row} exceeds its column's data")
    return column[row]


def from_arrow(table: Any, now: int) -> Iterator[Rows]:
    """Return the rows of a ``pyarrow`` ``Table`` or ``RecordBatch``, split where its memory isn't contiguous.

    Its columns are ``value`` and optionally ``key`` (each binary or string, or their large forms), ``headers`` (a list
    of structs of ``key`` and ``value``), ``timestamp`` (a timestamp, or int64 milliseconds since the epoch) and
    ``partition`` (an integer). Null means no key, no value, no headers, ``now``, or any partition.

    Args:
        table: The table.
        now: The timestamp (ms) for rows without a timestamp.

    Raises:
        InvalidRecordError: A column has the wrong type or name, ``value`` is missing, or a timestamp, partition or
            header is invalid. In this case nothing is returned.
    """
    import pyarrow as pa

    names = table.schema.names
    if unknown := [name for name in names if name not in COLUMNS]:
        raise InvalidRecordError(f"unknown columns {', '.join(unknown)}: a table may have {', '.join(COLUMNS)}")
    if "value" not in names or len(set(names)) < len(names):
        raise InvalidRecordError(f"a table needs a value column, and each column only once; it has {', '.join(names)}")
    pieces = table.to_batches() if isinstance(table, pa.Table) else [table]
    found: list[Rows] = []
    first = 0
    for piece in pieces:
        found.append(_rows(piece, first, now))
        first += len(piece)
    # Convert all pieces before returning the first, so an error in the last one doesn't leave the table half written.
    return iter(found)


def _rows(piece: Any, first: int, now: int) -> Rows:
    """Return the rows of a record batch. Its first row has the number ``first`` in the table."""
    import numpy as np

    column = dict(zip(piece.schema.names, piece.columns, strict=True))
    count = len(piece)
    timestamp = np.full(count, now, np.int64)
    if "timestamp" in column:
        timestamp = _numbers("timestamp", _milliseconds(column["timestamp"]), first, now, -1)
    partition = None
    if "partition" in column:
        partition = _numbers("partition", column["partition"], first, NO_PARTITION, 0)
    return Rows(
        timestamp,
        _bytes_column("key", column["key"]) if "key" in column else _nulls(count),
        _bytes_column("value", column["value"]),
        _headers(column["headers"], first) if "headers" in column else None,
        partition,
    )


def _nulls(count: int) -> BytesColumn:
    import numpy as np

    nowhere = np.zeros(count, np.int64)
    return BytesColumn(b"", nowhere, nowhere, np.zeros(count, np.bool_))


def _bytes_column(name: str, column: Any) -> BytesColumn:
    import numpy as np
    import pyarrow as pa

    kind = column.type
    if pa.types.is_null(kind):
        return _nulls(len(column))
    large = pa.types.is_large_binary(kind) or pa.types.is_large_string(kind)
    if not (large or pa.types.is_binary(kind) or pa.types.is_string(kind)):
        raise InvalidRecordError(f"column {name} is {kind}: cast it to binary or string")
    _, offsets, data = column.buffers()
    if not len(column):
        return _nulls(0)
    # A slice of a table shares the buffers of the whole table, and starts at `offset`.
    edges = np.frombuffer(offsets, np.int64 if large else np.int32)[column.offset : column.offset + len(column) + 1]
    edges = edges.astype(np.int64)
    # If a column contains no bytes, the buffer may be missing too.
    content = b"" if data is None else memoryview(data)
    return BytesColumn(content, edges[:-1], edges[1:], column.is_valid().to_numpy(zero_copy_only=False))


def _milliseconds(column: Any) -> Any:
    """Return a timestamp column as integers, rounded down. Any other column is returned unchanged."""
    import pyarrow as pa

    if not pa.types.is_timestamp(column.type):
        return column
    try:
        # Digits below a millisecond are dropped. A timestamp that doesn't fit in 64 bits of milliseconds is an error.
        times = column.cast(pa.timestamp("ms", column.type.tz), safe=column.type.unit == "s")
    except pa.ArrowInvalid as error:
        raise InvalidRecordError(f"column timestamp: {error}") from None
    return times.cast(pa.int64())


def _numbers(name: str, column: Any, first: int, null: int, least: int) -> Int64s:
    import pyarrow as pa

    if not (pa.types.is_integer(column.type) or pa.types.is_null(column.type)):
        raise InvalidRecordError(f"column {name} is {column.type}: cast it to an integer")
    try:
        whole = column.cast(pa.int64())
    except pa.ArrowInvalid as error:
        raise InvalidRecordError(f"column {name}: {error}") from None
    numbers: Int64s = whole.fill_null(null).to_numpy()
    if wrong := ((numbers < least) & whole.is_valid().to_numpy(zero_copy_only=False)).nonzero()[0].tolist():
        raise InvalidRecordError(f"the {name} of row {first + wrong[0]} is {numbers[wrong[0]]}")
    return numbers


def _headers(column: Any, first: int) -> BytesColumn | None:
    import numpy as np
    import pyarrow as pa

    if column.null_count == len(column):
        return None
    wanted = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    try:
        lists = column.cast(wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError):
        raise InvalidRecordError(f"column headers is {column.type}: cast it to {wanted}") from None
    lengths = lists.value_lengths().fill_null(0).to_numpy()
    ends = lengths.cumsum(dtype=np.int64)
    keys, values = lists.flatten().flatten()
    try:
        keys.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InvalidRecordError(f"column headers: {error}") from None
    if keys.null_count:
        nameless = keys.is_null().to_numpy(zero_copy_only=False).nonzero()[0][0]
        raise InvalidRecordError(f"a header of row {first + int(np.searchsorted(ends, nameless, 'right'))} has no key")
    return encode_lists(ends - lengths, ends, _bytes_column("headers", keys), _bytes_column("headers", values))


@has_compiled_form
def encode_lists(start: Int64s, end: Int64s, keys: BytesColumn, values: BytesColumn) -> BytesColumn:
    """Return headers in wire format, starting with their count.

    Args:
        start: The number of each row's first header.
        end: The number after each row's last header.
        keys: All keys, in UTF-8.
        values: All values.

    Raises:
        IndexError: A row refers to a header that does not exist.
    """
    import numpy as np

    encoded: list[bytes] = []
    for row, (first, stop) in enumerate(zip(start.tolist(), end.tolist(), strict=True)):
        if not 0 <= first <= stop <= len(keys):
            raise IndexError(f"row {row} has headers {first} to {stop} of {len(keys)}")
        headers = ((_content(keys, at, "key") or b"", _content(values, at, "value")) for at in range(first, stop))
        encoded.append(encode_headers([(key.decode(), value) for key, value in headers]))
    edges = np.array([0, *accumulate(map(len, encoded))], np.int64)
    return BytesColumn(b"".join(encoded), edges[:-1], edges[1:], np.ones(len(encoded), np.bool_))
