# cython: language_level=3
"""The open batch, for compiled modules that append to it without a Python call."""

from libc.stdint cimport int64_t

from aiokproto.accelerator.layout cimport Bytes


cdef class RecordWriter:
    cdef bytearray _buffer
    cdef bint _based
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t count
    cdef readonly int64_t base_timestamp
    cdef readonly int64_t max_timestamp
    cdef public int64_t max_bytes

    # Writes a record, its headers encoded, their count first. Returns its place in the batch; -1 if it does not fit, and
    # then nothing was written.
    cdef Py_ssize_t put(self, int64_t timestamp, Bytes key, Bytes value, Bytes headers) except -2
    cdef int64_t base_for(self, int64_t timestamp) except -2
    cdef int reserve(self, Py_ssize_t size) except -1


# A count of zero.
cdef Bytes NO_HEADERS
