# cython: language_level=3
"""The compiled forms of :mod:`aiokproto.records.scan`.

The loops over records don't use Python objects, and release the GIL.
"""

from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint64_t

from aiokproto.accelerator.layout cimport Bytes, Fields, read_fields
from aiokproto.accelerator.varints cimport read_unsigned
from aiokproto.accelerator.views cimport View, readable_view, writable_view

from aiokproto.accelerator import pure_form

# Length, attributes, timestamp, offset, two lengths and the header count take at least one byte each.
cdef int64_t SMALLEST_RECORD = 7
# The maximum size of a 32-bit varint, in bytes.
cdef int64_t LONGEST_LENGTH = 5


# The number of fields of a span.
cdef Py_ssize_t SPAN = 7


cdef struct Rows:
    int64_t *offset
    int64_t *timestamp
    int64_t *key_start
    int64_t *key_end
    int64_t *value_start
    int64_t *value_end
    int64_t *header_start
    int64_t *header_end
    uint8_t *key_valid
    uint8_t *value_valid
    # How many rows aren't filled in yet.
    int64_t left


def whole_records(data, pos, size, most):
    """Count the whole records in ``size`` bytes of ``data``, starting at ``pos``; at most ``most``."""
    result = None
    cdef View view = readable_view(data)
    if 0 <= pos <= view.size and 0 <= size <= INT64_MAX and 0 <= most <= INT64_MAX:
        result = count_whole(view, pos, size, most)
    return pure_form("aiokproto.records.scan", "whole_records")(data, pos, size, most) if result is None else result


cdef count_whole(View view, int64_t pos, int64_t size, int64_t most):
    """Return the result of `whole_records`, or None if a length is invalid or incomplete."""
    cdef int64_t count = 0
    cdef int64_t end = 0
    cdef int64_t stop = pos + min(size, view.size - pos)
    cdef const uint8_t *at
    cdef uint64_t raw = 0
    with nogil:
        while True:
            at = read_unsigned(view.ptr + pos, view.ptr + view.size, 32, &raw)
            # An odd number is a negative length.
            if at == NULL or raw & 1 or raw >> 1 < <uint64_t> SMALLEST_RECORD - 1:
                break
            end = (at - view.ptr) + <int64_t> (raw >> 1)
            if end > stop or count == most:
                break
            count += 1
            pos = end
    if at == NULL and view.size - pos < LONGEST_LENGTH:
        return count, pos, view.size + 1
    if at == NULL or raw & 1 or raw >> 1 < <uint64_t> SMALLEST_RECORD - 1:
        return None
    return count, pos, end


def scan(data, spans):
    """Find the fields of all records of magic 2 in ``data``."""
    found = scan_all(data, spans)
    return pure_form("aiokproto.records.scan", "scan")(data, spans) if found is None else found


cdef scan_all(data, spans):
    """Return the result of `scan`, or None if the bytes at a span aren't its records."""
    from numpy import bool_, empty, int64

    from aiokproto.records.scan import Fields as FieldArrays

    cdef View view = readable_view(data)
    cdef View table = readable_view(spans)
    cdef const int64_t *span = <const int64_t *> table.ptr
    cdef Py_ssize_t count = table.size // (SPAN * sizeof(int64_t))
    cdef int64_t total = records_of(view, span, count)
    cdef Rows rows
    cdef bint found = True
    if total < 0:
        return None
    numbers = empty((8, total), int64)
    valid = empty((2, total), bool_)
    rows = rows_of(writable_view(numbers), writable_view(valid), total)
    with nogil:
        while found and count:
            found = scan_span(view.ptr, view.size, span, &rows)
            span += SPAN
            count -= 1
    if not found or rows.left:
        return None
    offset, timestamp, key_start, key_end, value_start, value_end, header_start, header_end = numbers
    return FieldArrays(
        offset, timestamp, key_start, key_end, valid[0], value_start, value_end, valid[1], header_start, header_end
    )


cdef int64_t records_of(View view, const int64_t *span, Py_ssize_t count) noexcept:
    """Return the number of records in all spans, or -1 if the bytes can't hold that many.

    This also keeps allocations in proportion to the input.
    """
    cdef int64_t total = 0
    while count:
        # These fields are the start, the end and the number of records.
        if not 0 <= span[0] <= span[1] <= view.size or not 0 <= span[2] <= (span[1] - span[0]) // SMALLEST_RECORD:
            return -1
        total += span[2]
        span += SPAN
        count -= 1
    return total


cdef Rows rows_of(View numbers, View valid, int64_t total) noexcept:
    """Return pointers to the columns' first rows. They outlive the views, since numpy doesn't move its arrays."""
    cdef int64_t *first = <int64_t *> numbers.ptr
    cdef Rows rows
    rows.offset = first
    rows.timestamp = first + total
    rows.key_start = first + 2 * total
    rows.key_end = first + 3 * total
    rows.value_start = first + 4 * total
    rows.value_end = first + 5 * total
    rows.header_start = first + 6 * total
    rows.header_end = first + 7 * total
    rows.key_valid = valid.ptr
    rows.value_valid = valid.ptr + total
    rows.left = total
    return rows


cdef bint scan_span(const uint8_t *data, int64_t size, const int64_t *span, Rows *rows) noexcept nogil:
    """Fill in the rows of a span and advance. Return false if the bytes aren't its records."""
    cdef int64_t start = span[0]
    cdef int64_t end = span[1]
    cdef int64_t count = span[2]
    # Check again: they may have changed since the rows were counted.
    if not 0 <= start <= end <= size or not 0 <= count <= rows.left:
        return False
    cdef const uint8_t *at = data + start
    cdef const uint8_t *stop = data + end
    cdef int64_t base_offset = span[3]
    cdef int64_t base_timestamp = span[4]
    cdef bint log_append_time = span[5] != 0
    cdef int64_t append_time = span[6]
    cdef Fields fields
    cdef int64_t row
    for row in range(count):
        at = read_fields(at, stop, &fields)
        if at == NULL:
            return False
        if not add(base_offset, fields.offset_delta, &rows.offset[row]):
            return False
        if not add(base_timestamp, fields.timestamp_delta, &rows.timestamp[row]):
            return False
        if log_append_time:
            rows.timestamp[row] = append_time
        set_span(data, &fields.key, &rows.key_start[row], &rows.key_end[row], &rows.key_valid[row])
        set_span(data, &fields.value, &rows.value_start[row], &rows.value_end[row], &rows.value_valid[row])
        rows.header_start[row] = fields.headers - data
        rows.header_end[row] = at - data
    rows.offset += count
    rows.timestamp += count
    rows.key_start += count
    rows.key_end += count
    rows.value_start += count
    rows.value_end += count
    rows.header_start += count
    rows.header_end += count
    rows.key_valid += count
    rows.value_valid += count
    rows.left -= count
    return at == stop


cdef inline bint add(int64_t base, int64_t delta, int64_t *total) noexcept nogil:
    """Return false if the sum overflows."""
    total[0] = <int64_t> (<uint64_t> base + <uint64_t> delta)
    # The sum has overflowed if two numbers with the same sign have a sum with the other sign.
    return ((base ^ total[0]) & (delta ^ total[0])) >= 0


cdef inline void set_span(
    const uint8_t *data, Bytes *field, int64_t *start, int64_t *end, uint8_t *valid
) noexcept nogil:
    start[0] = field.start - data
    end[0] = start[0] + (field.size if field.size > 0 else 0)
    valid[0] = field.size >= 0
