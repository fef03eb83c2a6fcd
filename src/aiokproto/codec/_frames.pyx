# cython: language_level=3
"""The compiled form of `frame_buffer` of :mod:`aiokproto.codec.frames`."""

from cpython.bytearray cimport PyByteArray_FromStringAndSize


def frame_buffer(Py_ssize_t size) -> memoryview:
    # A bytearray of Python would be cleared first. Clearing a large buffer, which is filled at once, would stall the
    # event loop.
    if size < 0:
        raise ValueError("negative count")
    return memoryview(PyByteArray_FromStringAndSize(NULL, size))
