# cython: language_level=3
"""The compiled forms of :mod:`aiokproto.records.rows`."""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int64_t, uint8_t

from aiokproto.accelerator.layout cimport Bytes, size_of, write_bytes
from aiokproto.accelerator.varints cimport unsigned, unsigned_size, write_unsigned
from aiokproto.accelerator.views cimport View, readable_view, writable_view
from aiokproto.records._columns cimport Column, column_of
from aiokproto.records._writer cimport NO_HEADERS, RecordWriter

from aiokproto.accelerator import pure_form


def append_rows(writer, rows, indexes):
    """Write rows in order until the batch is full. Return the number of rows written."""
    cdef int64_t written = 0
    cdef bint full = False
    if isinstance(writer, RecordWriter):
        written = append_all(writer, rows, indexes, &full)
        if full or written == len(indexes):
            return written
        indexes = indexes[written:]
    return written + pure_form("aiokproto.records.rows", "append_rows")(writer, rows, indexes)


cdef int64_t append_all(RecordWriter writer, rows, indexes, bint *full) except -1:
    """Return the number of rows written before an invalid row, or before the batch was full, which sets the flag."""
    from numpy import ascontiguousarray, int64

    cdef View chosen = readable_view(ascontiguousarray(indexes, int64))
    cdef View times = readable_view(ascontiguousarray(rows.timestamp, int64))
    cdef int64_t count = times.size // 8
    cdef Column keys = column_of(rows.key, count)
    cdef Column values = column_of(rows.value, count)
    cdef Column header_column = None if rows.headers is None else column_of(rows.headers, count)
    cdef Bytes key, value
    cdef Bytes headers = NO_HEADERS
    cdef int64_t written, row, timestamp
    # As in `RecordWriter.append`, two threads must not write at the same time.
    with cython.critical_section(writer):
        for written in range(chosen.size // 8):
            row = (<int64_t *> chosen.ptr)[written]
            if not 0 <= row < count or not keys.read(row, &key) or not values.read(row, &value):
                return written
            if header_column is not None:
                if not header_column.read(row, &headers):
                    return written
                if headers.size < 1:
                    headers = NO_HEADERS
            timestamp = (<int64_t *> times.ptr)[row]
            # Let the pure form raise the error.
            if timestamp < -1:
                return written
            if writer.put(timestamp, key, value, headers) < 0:
                full[0] = True
                return written
    return chosen.size // 8


def encode_lists(start, end, keys, values):
    """Return headers in wire format, starting with their count."""
    encoded = encode_all(start, end, keys, values)
    return pure_form("aiokproto.records.rows", "encode_lists")(start, end, keys, values) if encoded is None else encoded


cdef encode_all(start, end, keys, values):
    """Return None if a row refers to a header that doesn't exist, or if another thread is changing the arrays."""
    from numpy import ascontiguousarray, bool_, empty, int64, ones

    from aiokproto.records.columns import BytesColumn

    cdef int64_t count = len(keys)
    cdef int64_t rows = len(start)
    cdef Column names = column_of(keys, count)
    cdef Column contents = column_of(values, count)
    cdef View starts = readable_view(ascontiguousarray(start, int64))
    cdef View ends = readable_view(ascontiguousarray(end, int64))
    edges = empty(rows + 1, int64)
    cdef View edge_view = writable_view(edges)
    cdef int64_t size
    if ends.size != starts.size:
        return None
    size = measure(
        <int64_t *> starts.ptr, <int64_t *> ends.ptr, rows, names, contents, count, <int64_t *> edge_view.ptr
    )
    if size < 0:
        return None
    data = PyBytes_FromStringAndSize(NULL, size)
    if not write(
        <int64_t *> starts.ptr,
        <int64_t *> ends.ptr,
        rows,
        names,
        contents,
        <uint8_t *> PyBytes_AS_STRING(data),
        size,
    ):
        return None
    return BytesColumn(data, edges[:-1], edges[1:], ones(rows, bool_))


cdef int64_t measure(
    const int64_t *start,
    const int64_t *end,
    int64_t rows,
    Column keys,
    Column values,
    int64_t count,
    int64_t *edges,
) noexcept:
    """Fill in where each row's headers start and end. Return the size of all headers, or -1 if one is invalid."""
    cdef int64_t row, index, first, last
    cdef int64_t size = 0
    cdef Bytes key, value
    for row in range(rows):
        edges[row] = size
        first, last = start[row], end[row]
        if not 0 <= first <= last <= count:
            return -1
        size += unsigned_size(unsigned(last - first))
        for index in range(first, last):
            if not keys.read(index, &key) or not values.read(index, &value) or key.size < 0:
                return -1
            size += size_of(key) + size_of(value)
    edges[rows] = size
    return size


cdef bint write(
    const int64_t *start, const int64_t *end, int64_t rows, Column keys, Column values, uint8_t *to, int64_t room
) noexcept:
    """Write the measured headers into ``room`` bytes. Return false if they don't fill them.

    It measures each header again: without a global lock, another thread may have changed the arrays.
    """
    cdef int64_t row, index, first, last
    cdef Bytes key, value
    cdef int64_t count = keys.valid.size
    for row in range(rows):
        first, last = start[row], end[row]
        if not 0 <= first <= last <= count:
            return False
        room -= unsigned_size(unsigned(last - first))
        if room < 0:
            return False
        to = write_unsigned(to, unsigned(last - first))
        for index in range(first, last):
            if not keys.read(index, &key) or not values.read(index, &value):
                return False
            room -= size_of(key) + size_of(value)
            if room < 0:
                return False
            to = write_bytes(write_bytes(to, key), value)
    return room == 0
