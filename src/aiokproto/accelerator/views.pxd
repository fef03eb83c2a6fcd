# cython: language_level=3
"""Memory that another object owns."""

from libc.stdint cimport uint8_t


cdef class View:
    """A buffer that can't move or change its size while this object lives."""

    cdef Py_buffer buffer
    cdef uint8_t *ptr
    cdef Py_ssize_t size


cdef View readable_view(object data)
cdef View writable_view(object data)
