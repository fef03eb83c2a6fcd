# cython: language_level=3
"""Columns of keys, values or headers (:class:`aiokproto.records.columns.BytesColumn`), as C reads them."""

from libc.stdint cimport int64_t

from aiokproto.accelerator.layout cimport Bytes
from aiokproto.accelerator.views cimport View


cdef class Column:
    cdef View data
    cdef View start
    cdef View end
    cdef View valid

    # Returns false if the item isn't within the data.
    cdef bint read(self, int64_t row, Bytes *field) noexcept


# Raises IndexError if one of the content's arrays doesn't have `count` items.
cdef Column column_of(object content, int64_t count)
