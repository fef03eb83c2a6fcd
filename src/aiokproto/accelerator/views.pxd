# cython: language_level=3
"""Memory that belongs to somebody else."""

from libc.stdint cimport uint8_t


cdef class View:
    """A buffer that is held, and stays where it is, as long as this lives."""

    cdef Py_buffer held
    cdef uint8_t *at
    cdef Py_ssize_t size


cdef View view_of(object data)
cdef View room_in(object data)
