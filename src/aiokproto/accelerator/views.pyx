# cython: language_level=3
"""Views of memory that other objects own: bytes, numpy arrays, Arrow buffers."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBUF_WRITABLE, PyBuffer_Release, PyObject_GetBuffer


@cython.final
cdef class View:
    def __dealloc__(self):
        PyBuffer_Release(&self.buffer)


cdef View readable_view(object data):
    """Return a readable view. Raises the same errors as ``memoryview``, and an error if the memory isn't contiguous."""
    return get_view(data, PyBUF_SIMPLE)


cdef View writable_view(object data):
    """Return a writable view."""
    return get_view(data, PyBUF_WRITABLE)


cdef View get_view(object data, int flags):
    cdef View view = View.__new__(View)
    PyObject_GetBuffer(data, &view.buffer, flags)
    view.ptr = <uint8_t *> view.buffer.buf
    view.size = view.buffer.len
    return view
