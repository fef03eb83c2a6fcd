# cython: language_level=3
"""The compiled form of `binary_array` in :mod:`aiokproto.records.columns`, and columns for other compiled modules.

The loops over items don't use Python objects, and release the GIL.
"""

cimport cython
from libc.stdint cimport INT32_MAX, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from aiokproto.accelerator.layout cimport Bytes
from aiokproto.accelerator.views cimport View, readable_view, writable_view

from aiokproto.accelerator import pure_form


@cython.final
cdef class Column:
    cdef bint read(self, int64_t row, Bytes *field) noexcept:
        cdef int64_t start, end
        field.start = NULL
        field.size = -1
        if not self.valid.ptr[row]:
            return True
        start = (<int64_t *> self.start.ptr)[row]
        end = (<int64_t *> self.end.ptr)[row]
        if not 0 <= start <= end <= self.data.size:
            return False
        field.start = self.data.ptr + start
        field.size = end - start
        return True


cdef Column column_of(content, int64_t count):
    from numpy import ascontiguousarray, bool_, int64

    cdef Column column = Column.__new__(Column)
    column.data = readable_view(content.data)
    column.start = readable_view(ascontiguousarray(content.start, int64))
    column.end = readable_view(ascontiguousarray(content.end, int64))
    column.valid = readable_view(ascontiguousarray(content.valid, bool_))
    if column.start.size != 8 * count or column.end.size != 8 * count or column.valid.size != count:
        raise IndexError("the columns are not of one length")
    return column


def binary_array(data, start, end, valid):
    """Return a ``pyarrow.BinaryArray`` of ``data[start:end]``, null where ``valid`` is false. Items are copied once."""
    array = array_of(data, start, end, valid)
    if array is None:
        return pure_form("aiokproto.records.columns", "binary_array")(data, start, end, valid)
    return array


cdef array_of(data, start, end, valid):
    """Return the array, or None if it's empty or too large, or if an item exceeds the data."""
    from numpy import ascontiguousarray, bool_, int64
    from pyarrow import Array, allocate_buffer, binary

    cdef View view = readable_view(data)
    cdef View starts = readable_view(ascontiguousarray(start, int64))
    cdef View ends = readable_view(ascontiguousarray(end, int64))
    cdef View valids = readable_view(ascontiguousarray(valid, bool_))
    cdef Py_ssize_t count = valids.size
    cdef int64_t total
    cdef int64_t missing = 0
    if count == 0 or starts.size != 8 * count or ends.size != 8 * count:
        return None
    offsets = allocate_buffer(4 * (count + 1))
    cdef View positions = writable_view(offsets)
    with nogil:
        total = measure(
            <int64_t *> starts.ptr,
            <int64_t *> ends.ptr,
            valids.ptr,
            count,
            view.size,
            <int32_t *> positions.ptr,
            &missing,
        )
    if total < 0 or missing == count:
        return None
    # Let Arrow allocate the memory, so it can use it without a copy.
    content = allocate_buffer(total)
    cdef View room = writable_view(content)
    with nogil:
        gather(view.ptr, view.size, <int64_t *> starts.ptr, <int32_t *> positions.ptr, count, room.ptr)
    bits = None
    if missing:
        bits = allocate_buffer((count + 7) // 8)
        set_validity(valids.ptr, count, writable_view(bits))
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
    """Fill in the array's offsets and count the nulls. Return the size of all items, or -1 if one exceeds the data."""
    cdef int64_t total = 0
    cdef int64_t first, last
    cdef Py_ssize_t row
    for row in range(count):
        offset[row] = <int32_t> total
        if not valid[row]:
            missing[0] += 1
            continue
        # Each value is read once: another thread that shares the arrays may change them.
        first, last = start[row], end[row]
        if not 0 <= first <= last <= size:
            return -1
        total += last - first
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
    cdef int64_t first
    cdef int32_t length
    for row in range(count):
        length = offset[row + 1] - offset[row]
        first = start[row]
        # Check again: the value may have changed since the size was measured.
        if length and 0 <= first <= size - length:
            memcpy(room + offset[row], data + first, length)


cdef void set_validity(const uint8_t *valid, Py_ssize_t count, View bits) noexcept:
    """Set the validity bitmap: one bit for every item that isn't null, the first item in the lowest bit."""
    cdef Py_ssize_t row
    memset(bits.ptr, 0, bits.size)
    for row in range(count):
        if valid[row]:
            bits.ptr[row >> 3] |= 1 << (row & 7)
