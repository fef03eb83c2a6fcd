# cython: language_level=3
"""The compiled form of `plain_batches` of :mod:`aiokproto.records.runs`."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t

from aiokproto.accelerator.views cimport View, view_of

cdef Py_ssize_t HEADER_SIZE = 61
cdef Py_ssize_t LOG_OVERHEAD = 12
cdef uint32_t TIMESTAMP_TYPE = 8


def plain_batches(data):
    """Return the spans and checksums of the plain batches at the start of a record set, up to any other or cut one."""
    from aiokproto.records.scan import Span

    cdef View view = view_of(data)
    cdef const uint8_t *at
    cdef Py_ssize_t pos = 0
    cdef Py_ssize_t stop
    cdef int64_t length
    cdef int32_t count
    cdef uint32_t flags, crc
    cdef list spans = []
    cdef list checksums = []
    make = tuple.__new__
    while view.size - pos >= HEADER_SIZE:
        at = view.at + pos
        length = <int32_t> number(at + 8, 4)
        flags = <uint32_t> number(at + 21, 2)
        count = <int32_t> number(at + 57, 4)
        # In 64 bits, which the sum cannot exceed.
        if at[16] != 2 or flags & ~TIMESTAMP_TYPE or count <= 0 or at[23] & 128 or length < HEADER_SIZE - LOG_OVERHEAD:
            break
        if length > view.size - pos - LOG_OVERHEAD:
            break
        stop = pos + LOG_OVERHEAD + <Py_ssize_t> length
        crc = <uint32_t> number(at + 17, 4)
        newest = <int64_t> number(at + 35, 8) if flags else None
        first = <int64_t> number(at, 8)
        spans.append(make(Span, (pos + HEADER_SIZE, stop, count, first, <int64_t> number(at + 27, 8), newest)))
        checksums.append(crc)
        pos = stop
    return spans, checksums


cdef inline uint64_t number(const uint8_t *at, int size) noexcept nogil:
    """An unsigned number of so many bytes, the highest first."""
    cdef uint64_t value = 0
    cdef int place
    for place in range(size):
        value = value << 8 | at[place]
    return value
