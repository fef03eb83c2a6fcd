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

    # False where the item lies outside of the data.
    cdef bint take(self, int64_t row, Bytes *field) noexcept


# Raises IndexError if its parts are not of `count` items each.
cdef Column column_of(object content, int64_t count)
