# cython: language_level=3
"""The compiled forms of :mod:`aiokproto.records.runs`."""

from cpython.buffer cimport PyBUF_READ
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from aiokproto.accelerator.views cimport View, readable_view, writable_view

cdef Py_ssize_t HEADER_SIZE = 61
cdef Py_ssize_t LOG_OVERHEAD = 12
# The checksum covers the batch starting at the header's attributes. This is how many bytes of the header it covers.
cdef Py_ssize_t CHECKED = 40
cdef uint32_t TIMESTAMP_TYPE = 8
# The number of fields of a span.
cdef Py_ssize_t SPAN = 7


def plain_batches(data):
    """Return the spans and checksums of the plain batches at the start of a record set."""
    from numpy import empty, int64, uint32

    cdef View view = readable_view(data)
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t position = 0
    cdef Py_ssize_t stop
    cdef const uint8_t *at
    while (stop := end_of_plain(view, position)) > 0:
        count += 1
        position = stop
    spans = empty((count, SPAN), int64)
    checksums = empty(count, uint32)
    cdef View table = writable_view(spans)
    cdef View column = writable_view(checksums)
    cdef int64_t *span = <int64_t *> table.ptr
    cdef uint32_t *checksum = <uint32_t *> column.ptr
    cdef Py_ssize_t filled = 0
    position = 0
    # The second pass checks again. If another thread has changed the data, it would otherwise read outside of the data.
    while filled < count and (stop := end_of_plain(view, position)) > 0:
        at = view.ptr + position
        span[0] = position + HEADER_SIZE
        span[1] = stop
        span[2] = <int64_t> read_uint(at + 57, 4)
        span[3] = <int64_t> read_uint(at, 8)
        span[4] = <int64_t> read_uint(at + 27, 8)
        span[5] = at[22] == TIMESTAMP_TYPE
        span[6] = <int64_t> read_uint(at + 35, 8)
        checksum[0] = <uint32_t> read_uint(at + 17, 4)
        span += SPAN
        checksum += 1
        position = stop
        filled += 1
    return spans[:filled], checksums[:filled]


cdef Py_ssize_t end_of_plain(View view, Py_ssize_t position) noexcept:
    """Return where the plain batch at a position ends, or 0 if there's none."""
    if view.size - position < HEADER_SIZE:
        return 0
    cdef const uint8_t *at = view.ptr + position
    cdef int64_t length = <int32_t> read_uint(at + 8, 4)
    cdef uint32_t flags = <uint32_t> read_uint(at + 21, 2)
    if at[16] != 2 or flags & ~TIMESTAMP_TYPE or <int32_t> read_uint(at + 57, 4) <= 0 or at[23] & 128:
        return 0
    # Such a batch is damaged: no offset can follow it. It's read on its own, to raise the error.
    if <int64_t> read_uint(at, 8) >= INT64_MAX - <int64_t> read_uint(at + 23, 4):
        return 0
    if not HEADER_SIZE - LOG_OVERHEAD <= length <= view.size - position - LOG_OVERHEAD:
        return 0
    return position + LOG_OVERHEAD + <Py_ssize_t> length


def first_damaged(data, spans, checksums):
    """Return the index of the first of adjacent batches whose checksum doesn't match, or None if all match."""
    from aiokproto.records.crc import crc32c

    cdef View view = readable_view(data)
    cdef View table = readable_view(spans)
    cdef View expected = readable_view(checksums)
    cdef const int64_t *span = <const int64_t *> table.ptr
    cdef const uint32_t *checksum = <const uint32_t *> expected.ptr
    cdef Py_ssize_t count = expected.size // <Py_ssize_t> sizeof(uint32_t)
    cdef Py_ssize_t index
    cdef int64_t start, stop
    cdef uint32_t found
    if table.size // <Py_ssize_t> (SPAN * sizeof(int64_t)) != count:
        raise ValueError(f"{len(spans)} spans, {len(checksums)} checksums")
    for index in range(count):
        start, stop = span[0], span[1]
        if not CHECKED <= start <= stop <= view.size:
            raise IndexError(f"batch {index} spans {start} to {stop} of {view.size} bytes")
        checked = PyMemoryView_FromMemory(<char *> view.ptr + start - CHECKED, stop - start + CHECKED, PyBUF_READ)
        found = crc32c(checked)
        if found != checksum[index]:
            return index
        span += SPAN
    return None


cdef inline uint64_t read_uint(const uint8_t *at, int size) noexcept nogil:
    """Read an unsigned big-endian number."""
    cdef uint64_t value = 0
    cdef int index
    for index in range(size):
        value = value << 8 | at[index]
    return value
