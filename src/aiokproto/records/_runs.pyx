# cython: language_level=3
"""The compiled forms of :mod:`aiokproto.records.runs`."""

from cpython.buffer cimport PyBUF_READ
from cpython.memoryview cimport PyMemoryView_FromMemory
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint32_t, uint64_t

from aiokproto.accelerator.views cimport View, room_in, view_of

cdef Py_ssize_t HEADER_SIZE = 61
cdef Py_ssize_t LOG_OVERHEAD = 12
# The checksum covers the header from its attributes on.
cdef Py_ssize_t CHECKED = 40
cdef uint32_t TIMESTAMP_TYPE = 8
# The fields of a span.
cdef Py_ssize_t SPAN = 7


def plain_batches(data):
    """Return the spans and checksums of the plain batches at the start of a record set, up to any other or cut one."""
    from numpy import empty, int64, uint32

    cdef View view = view_of(data)
    cdef Py_ssize_t count = 0
    cdef Py_ssize_t pos = 0
    cdef Py_ssize_t stop
    cdef const uint8_t *at
    while (stop := end_of_plain(view, pos)) > 0:
        count += 1
        pos = stop
    spans = empty((count, SPAN), int64)
    checksums = empty(count, uint32)
    cdef View table = room_in(spans)
    cdef View column = room_in(checksums)
    cdef int64_t *span = <int64_t *> table.at
    cdef uint32_t *checksum = <uint32_t *> column.at
    cdef Py_ssize_t filled = 0
    pos = 0
    # Looked at again: another thread may have changed the data, and positions outside of it would be read.
    while filled < count and (stop := end_of_plain(view, pos)) > 0:
        at = view.at + pos
        span[0] = pos + HEADER_SIZE
        span[1] = stop
        span[2] = <int64_t> number(at + 57, 4)
        span[3] = <int64_t> number(at, 8)
        span[4] = <int64_t> number(at + 27, 8)
        span[5] = at[22] == TIMESTAMP_TYPE
        span[6] = <int64_t> number(at + 35, 8)
        checksum[0] = <uint32_t> number(at + 17, 4)
        span += SPAN
        checksum += 1
        pos = stop
        filled += 1
    return spans[:filled], checksums[:filled]


cdef Py_ssize_t end_of_plain(View view, Py_ssize_t pos) noexcept:
    """Return where the plain batch at a position ends; 0 if there is none."""
    if view.size - pos < HEADER_SIZE:
        return 0
    cdef const uint8_t *at = view.at + pos
    cdef int64_t length = <int32_t> number(at + 8, 4)
    cdef uint32_t flags = <uint32_t> number(at + 21, 2)
    if at[16] != 2 or flags & ~TIMESTAMP_TYPE or <int32_t> number(at + 57, 4) <= 0 or at[23] & 128:
        return 0
    # As a batch by itself it is damaged: there is no offset behind it.
    if <int64_t> number(at, 8) >= INT64_MAX - <int64_t> number(at + 23, 4):
        return 0
    if not HEADER_SIZE - LOG_OVERHEAD <= length <= view.size - pos - LOG_OVERHEAD:
        return 0
    return pos + LOG_OVERHEAD + <Py_ssize_t> length


def first_damaged(data, spans, checksums):
    """Return the index of the first of adjacent batches whose checksum does not match; None if all do."""
    from aiokproto.records.crc import crc32c

    cdef View view = view_of(data)
    cdef View table = view_of(spans)
    cdef View expected = view_of(checksums)
    cdef const int64_t *span = <const int64_t *> table.at
    cdef const uint32_t *checksum = <const uint32_t *> expected.at
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
        checked = PyMemoryView_FromMemory(<char *> view.at + start - CHECKED, stop - start + CHECKED, PyBUF_READ)
        found = crc32c(checked)
        if found != checksum[index]:
            return index
        span += SPAN
    return None


cdef inline uint64_t number(const uint8_t *at, int size) noexcept nogil:
    """An unsigned number of so many bytes, the highest first."""
    cdef uint64_t value = 0
    cdef int place
    for place in range(size):
        value = value << 8 | at[place]
    return value
