# cython: language_level=3
"""Memory that belongs to somebody else: of bytes, numpy's arrays, Arrow's buffers."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer


@cython.final
cdef class View:
    def __dealloc__(self):
        PyBuffer_Release(&self.held)


cdef View view_of(object data):
    """What may be read. Raises as ``memoryview`` does, also where the bytes do not follow one another."""
    return held(data, PyBUF_SIMPLE)


cdef View room_in(object data):
    """What may be written, too."""
    return held(data, PyBUF_WRITABLE)


cdef View held(object data, int how):
    cdef View view = View.__new__(View)
    PyObject_GetBuffer(data, &view.held, how)
    view.at = <uint8_t *> view.held.buf
    view.size = view.held.len
    return view
