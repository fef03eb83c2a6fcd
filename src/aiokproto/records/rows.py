"""Arrow tables to records, the reverse of :mod:`~aiokproto.records.columns`. Needs the ``arrow`` extra.

::

    for rows in from_arrow(table, now_ms):
        written = append_rows(builder, rows, rows.places())
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
"""The columns that a table to be written may have; ``value`` is required."""

NO_PARTITION = -1
"""Represents null in :attr:`Rows.partition`."""


@dataclass(frozen=True)
class Rows:
    """Records to be written, as columns that view Arrow's memory; nothing is copied until it is written.

    Attributes:
        timestamp: Milliseconds since the epoch, int64; -1 for none.
        key: The keys.
        value: The values.
        headers: Each record's headers in wire format, their count first; None if no record has any.
        partition: The partition column, int64, with ``NO_PARTITION`` for null; None if there is no such column.
    """

    timestamp: Int64s
    key: BytesColumn
    value: BytesColumn
    headers: BytesColumn | None
    partition: Int64s | None

    def __len__(self) -> int:
        return len(self.timestamp)

    def places(self) -> Int64s:
        """Return the number of every row, in order."""
        import numpy as np

        return np.arange(len(self), dtype=np.int64)

    def sizes(self) -> Int64s:
        """Return an upper bound of the bytes that each row adds to a batch, before compression: see `estimate_size`."""
        import numpy as np

        size: Int64s = np.full(len(self), RECORD_OVERHEAD, np.int64)
        for column in (self.key, self.value, self.headers):
            if column is not None:
                size += np.where(column.valid, column.end - column.start, 0)
        return size


@has_compiled_form
def append_rows(writer: RecordWriter, rows: Rows, places: Int64s) -> int:
    """Write rows in order, until the batch is full.

    Args:
        writer: The open batch. The first record always fits: check :meth:`Rows.sizes` first if it has a limit.
        rows: The rows.
        places: The numbers of the rows to write, int64.

    Returns:
        The number of rows written.

    Raises:
        IndexError: There is no row of that number, or its content exceeds the column's data. The rows before it are
            written.
    """
    # Stops at the first row that does not fit, never skips: the order of the rows is the order of the records.
    for written, place in enumerate(map(int, places)):
        if not 0 <= place < len(rows):
            raise IndexError(f"row {place} of {len(rows)} does not exist")
        encoded = None if rows.headers is None else _content(rows.headers, place, "headers")
        headers = read_headers(encoded, 0)[0] if encoded else ()
        key, value = _content(rows.key, place, "key"), _content(rows.value, place, "value")
        if writer.append(int(rows.timestamp[place]), key, value, headers) is None:
            return written
    return len(places)


def _content(column: BytesColumn, place: int, name: str) -> bytes | None:
    if column.valid[place] and not 0 <= column.start[place] <= column.end[place] <= len(column.data):
        raise IndexError(f"the {name} of row {place} exceeds its column's data")
    return column[place]


def from_arrow(table: Any, now: int) -> Iterator[Rows]:
    """Return the rows of a ``pyarrow`` ``Table`` or ``RecordBatch``, split where its memory is not contiguous.

    Its columns are ``value`` and optionally ``key`` (each binary or string, or their large forms), ``headers`` (a list
    of structs of ``key`` and ``value``), ``timestamp`` (a timestamp, or int64 milliseconds since the epoch) and
    ``partition`` (an integer). Null means no key, no value, no headers, ``now``, any partition.

    Args:
        table: The table.
        now: The timestamp (ms) of rows without one.

    Raises:
        InvalidRecordError: A column has a wrong type or name, ``value`` is missing, or a timestamp, partition or
            header is invalid. Nothing is returned then.
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
    # All pieces are converted before the first is returned: an error in the last one leaves nothing half written.
    return iter(found)


def _rows(piece: Any, first: int, now: int) -> Rows:
    """Return the rows of a record batch, whose first row is number ``first`` of the table."""
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
    # A slice of a table shares the buffers of the whole, from `offset` on.
    edges = np.frombuffer(offsets, np.int64 if large else np.int32)[column.offset : column.offset + len(column) + 1]
    edges = edges.astype(np.int64)
    # A column without any bytes may lack the buffer, too.
    content = b"" if data is None else memoryview(data)
    return BytesColumn(content, edges[:-1], edges[1:], column.is_valid().to_numpy(zero_copy_only=False))


def _milliseconds(column: Any) -> Any:
    """Return a timestamp column as integers, rounded down; any other unchanged."""
    import pyarrow as pa

    if not pa.types.is_timestamp(column.type):
        return column
    try:
        # Sub-millisecond digits are dropped; a timestamp that milliseconds in 64 bits cannot express is an error.
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
    """Return headers in wire format, their count first.

    Args:
        start: The number of the first header of each row.
        end: The number after its last header.
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
