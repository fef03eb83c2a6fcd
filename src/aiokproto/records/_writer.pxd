# cython: language_level=3
"""The open batch, which other compiled modules append to without a Python call."""

from libc.stdint cimport int64_t

from aiokproto.accelerator.layout cimport Bytes


cdef class RecordWriter:
    cdef bytearray _buffer
    cdef bint _based
    cdef readonly Py_ssize_t size
    cdef public Py_ssize_t count
    cdef public int64_t base_timestamp
    cdef public int64_t max_timestamp
    cdef public int64_t max_bytes

    # Writes a record. Its headers are already encoded, starting with their count. Returns the record's index in the
    # batch, or -1 without writing anything if it doesn't fit.
    cdef Py_ssize_t put(self, int64_t timestamp, Bytes key, Bytes value, Bytes headers) except -2
    cdef int64_t base_for(self, int64_t timestamp) except -2
    cdef int reserve(self, Py_ssize_t size) except -1


# Empty headers are encoded as their count, zero.
cdef Bytes NO_HEADERS
