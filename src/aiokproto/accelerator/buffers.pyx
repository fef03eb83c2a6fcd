# cython: language_level=3
"""Buffers: twin of `aiokproto.net.protocol.room`."""

from cpython.bytearray cimport PyByteArray_FromStringAndSize


def room(Py_ssize_t size) -> bytearray:
    """``size`` bytes that are not set yet: clearing a large buffer that is filled at once would stall the loop."""
    if size < 0:
        raise ValueError("negative count")
    return PyByteArray_FromStringAndSize(NULL, size)
