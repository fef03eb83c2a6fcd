# cython: language_level=3
"""Records of magic 2 to columns: twins of parts of `records.scan`, and of `records.columns.binary_array`.

The loops over records have no Python object in them, and let go of the interpreter's lock.
"""

from libc.stdint cimport INT32_MAX, INT64_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from aiokproto.accelerator.layout cimport Bytes, Fields, read_fields
from aiokproto.accelerator.varints cimport read_unsigned
from aiokproto.accelerator.views cimport View, room_in, view_of

from aiokproto.accelerator import forms

# A byte each for length, attributes, timestamp, offset, two lengths and the header count.
cdef int64_t SMALLEST_RECORD = 7
# A length of 32 bits takes no more.
cdef int64_t LONGEST_LENGTH = 5


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


def whole_records(data, pos, size, most):
    """How many whole records there are from ``pos`` on, ``most`` at most, in ``size`` bytes of ``data``."""
    found = None
    cdef View view = view_of(data)
    if 0 <= pos <= view.size and 0 <= size <= INT64_MAX and 0 <= most <= INT64_MAX:
        found = count_whole(view, pos, size, most)
    return forms("aiokproto.records.scan", "whole_records")["pure"](data, pos, size, most) if found is None else found


cdef count_whole(View view, int64_t pos, int64_t size, int64_t most):
    """What `whole_records` finds; None where a length makes no sense, or is not all there."""
    cdef int64_t count = 0
    cdef int64_t end = 0
    cdef int64_t stop = pos + min(size, view.size - pos)
    cdef const uint8_t *at
    cdef uint64_t raw = 0
    with nogil:
        while True:
            at = read_unsigned(view.at + pos, view.at + view.size, 32, &raw)
            # An odd number is a negative length.
            if at == NULL or raw & 1 or raw >> 1 < <uint64_t> SMALLEST_RECORD - 1:
                break
            end = (at - view.at) + <int64_t> (raw >> 1)
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
    return forms("aiokproto.records.scan", "scan")["pure"](data, spans) if found is None else found


cdef scan_all(data, spans):
    """What `scan` finds; None where the bytes are not what the spans say."""
    from numpy import bool_, empty, int64

    from aiokproto.records.scan import Fields as Found

    cdef View view = view_of(data)
    cdef int64_t total = 0
    cdef int64_t start, stop, count, base_offset, base_timestamp, newest
    cdef bint appended, well
    cdef Rows rows
    for start, stop, count, *_ in spans:
        # Also keeps what is allocated in proportion to what was sent.
        if not 0 <= start <= stop <= view.size or not 0 <= count <= (stop - start) // SMALLEST_RECORD:
            return None
        total += count
    numbers = empty((8, total), int64)
    valid = empty((2, total), bool_)
    rows = rows_of(room_in(numbers), room_in(valid), total)
    for start, stop, count, base_offset, base_timestamp, append_time in spans:
        appended = append_time is not None
        newest = append_time if appended else 0
        with nogil:
            well = scan_span(
                view.at, view.at + start, view.at + stop, count, base_offset, base_timestamp, appended, newest, &rows
            )
        if not well:
            return None
    offset, timestamp, key_start, key_end, value_start, value_end, header_start, header_end = numbers
    return Found(
        offset, timestamp, key_start, key_end, valid[0], value_start, value_end, valid[1], header_start, header_end
    )


cdef Rows rows_of(View numbers, View valid, int64_t total) noexcept:
    """The columns' first rows. The arrays stay where they are without the views: numpy does not move them."""
    cdef int64_t *first = <int64_t *> numbers.at
    cdef Rows rows
    rows.offset = first
    rows.timestamp = first + total
    rows.key_start = first + 2 * total
    rows.key_end = first + 3 * total
    rows.value_start = first + 4 * total
    rows.value_end = first + 5 * total
    rows.header_start = first + 6 * total
    rows.header_end = first + 7 * total
    rows.key_valid = valid.at
    rows.value_valid = valid.at + total
    return rows


cdef bint scan_span(
    const uint8_t *data,
    const uint8_t *at,
    const uint8_t *stop,
    int64_t count,
    int64_t base_offset,
    int64_t base_timestamp,
    bint appended,
    int64_t newest,
    Rows *rows,
) noexcept nogil:
    """Fill ``count`` rows, and go on to the next ones. False where the bytes are not so many records."""
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
        if appended:
            rows.timestamp[row] = newest
        place(data, &fields.key, &rows.key_start[row], &rows.key_end[row], &rows.key_valid[row])
        place(data, &fields.value, &rows.value_start[row], &rows.value_end[row], &rows.value_valid[row])
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
    return at == stop


cdef inline bint add(int64_t base, int64_t delta, int64_t *total) noexcept nogil:
    """False if the sum does not fit 64 bits."""
    total[0] = <int64_t> (<uint64_t> base + <uint64_t> delta)
    # Two numbers of one sign whose sum has the other: it went around.
    return ((base ^ total[0]) & (delta ^ total[0])) >= 0


cdef inline void place(const uint8_t *data, Bytes *field, int64_t *start, int64_t *end, uint8_t *valid) noexcept nogil:
    start[0] = field.start - data
    end[0] = start[0] + (field.size if field.size > 0 else 0)
    valid[0] = field.size >= 0


def binary_array(data, start, end, valid):
    """A ``pyarrow.BinaryArray`` of ``data[start:end]``, null where ``valid`` is false: every item is copied once."""
    found = array_of(data, start, end, valid)
    if found is None:
        return forms("aiokproto.records.columns", "binary_array")["pure"](data, start, end, valid)
    return found


cdef array_of(data, start, end, valid):
    """The array; None where nothing is in it, or not all of it in the data, or too much."""
    from numpy import ascontiguousarray, bool_, int64
    from pyarrow import Array, allocate_buffer, binary

    cdef View view = view_of(data)
    cdef View starts = view_of(ascontiguousarray(start, int64))
    cdef View ends = view_of(ascontiguousarray(end, int64))
    cdef View valids = view_of(ascontiguousarray(valid, bool_))
    cdef Py_ssize_t count = valids.size
    cdef int64_t total
    cdef int64_t missing = 0
    if count == 0 or starts.size != 8 * count or ends.size != 8 * count:
        return None
    offsets = allocate_buffer(4 * (count + 1))
    cdef View places = room_in(offsets)
    with nogil:
        total = measure(
            <int64_t *> starts.at, <int64_t *> ends.at, valids.at, count, view.size, <int32_t *> places.at, &missing
        )
    if total < 0 or missing == count:
        return None
    content = allocate_buffer(total)
    cdef View room = room_in(content)
    with nogil:
        gather(view.at, view.size, <int64_t *> starts.at, <int32_t *> places.at, count, room.at)
    bits = None
    if missing:
        bits = allocate_buffer((count + 7) // 8)
        mark(valids.at, count, room_in(bits))
    return Array.from_buffers(binary(), count, [bits, offsets, content], missing)


cdef int64_t measure(
    const int64_t *start,
    const int64_t *end,
    const uint8_t *valid,
    Py_ssize_t count,
    Py_ssize_t size,
    int32_t *offset,
    int64_t *missing,
) noexcept nogil:
    """Fill the array's offsets, and count the nulls. The bytes of all items; -1 where they cannot be what is said."""
    cdef int64_t total = 0
    cdef Py_ssize_t row
    for row in range(count):
        offset[row] = <int32_t> total
        if not valid[row]:
            missing[0] += 1
            continue
        if not 0 <= start[row] <= end[row] <= size:
            return -1
        total += end[row] - start[row]
        if total > INT32_MAX:
            return -1
    offset[count] = <int32_t> total
    return total


cdef void gather(
    const uint8_t *data,
    Py_ssize_t size,
    const int64_t *start,
    const int32_t *offset,
    Py_ssize_t count,
    uint8_t *room,
) noexcept nogil:
    cdef Py_ssize_t row
    cdef int32_t length
    for row in range(count):
        length = offset[row + 1] - offset[row]
        # Looked at again: without the lock, whoever shares the array may change it.
        if length and 0 <= start[row] <= size - length:
            memcpy(room + offset[row], data + start[row], length)


cdef void mark(const uint8_t *valid, Py_ssize_t count, View bits) noexcept:
    """A bit for every item that is there, the first one lowest."""
    cdef Py_ssize_t row
    memset(bits.at, 0, bits.size)
    for row in range(count):
        if valid[row]:
            bits.at[row >> 3] |= 1 << (row & 7)
