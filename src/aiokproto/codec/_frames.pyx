# cython: language_level=3
"""The compiled form of `frame_buffer` of :mod:`aiokproto.codec.frames`."""

from cpython.bytearray cimport PyByteArray_FromStringAndSize


def frame_buffer(Py_ssize_t size) -> memoryview:
    # Python's bytearray() would zero the buffer first. Zeroing a large buffer at once would stall the event loop.
    if size < 0:
        raise ValueError("negative count")
    return memoryview(PyByteArray_FromStringAndSize(NULL, size))
