# cython: language_level=3
"""Views of memory that other objects own: bytes, numpy arrays, Arrow buffers."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer


@cython.final
cdef class View:
    def __dealloc__(self):
        PyBuffer_Release(&self.held)


cdef View view_of(object data):
    """A readable view. Raises as ``memoryview`` does, and also if the memory is not contiguous."""
    return held(data, PyBUF_SIMPLE)


cdef View room_in(object data):
    """A writable view."""
    return held(data, PyBUF_WRITABLE)


cdef View held(object data, int how):
    cdef View view = View.__new__(View)
    PyObject_GetBuffer(data, &view.held, how)
    view.at = <uint8_t *> view.held.buf
    view.size = view.held.len
    return view
