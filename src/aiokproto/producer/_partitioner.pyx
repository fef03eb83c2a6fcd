# cython: language_level=3
"""The compiled hashes of :mod:`aiokproto.producer.partitioner`."""

from libc.stdint cimport int64_t, uint32_t

from aiokproto.accelerator.layout cimport Bytes
from aiokproto.accelerator.views cimport View, writable_view
from aiokproto.records._columns cimport Column, column_of

from aiokproto.accelerator import pure_form

cdef uint32_t M = 0x5BD1E995
cdef uint32_t SEED = 0x9747B28C


def murmur2(data) -> int:
    """Return the 32-bit murmur2 hash of ``data``, signed as in Java."""
    cdef uint32_t h
    if type(data) is not bytes:
        return pure_form("aiokproto.producer.partitioner", "murmur2")(data)
    h = murmur2_hash(data, len(<bytes> data))
    return (<long long> h) - 0x100000000 if h > 0x7FFFFFFF else h


def key_hash(key) -> int:
    """Return the positive hash of a key."""
    if type(key) is not bytes:
        return pure_form("aiokproto.producer.partitioner", "key_hash")(key)
    # This form doesn't need the pure form's cache, which avoids a loop in Python.
    return murmur2_hash(key, len(<bytes> key)) & 0x7FFFFFFF


def key_hashes(keys):
    """Return the hash of each key in a column. The hash of a missing key is arbitrary."""
    from numpy import empty, int64

    cdef int64_t count = len(keys)
    cdef Column column = column_of(keys, count)
    hashes = empty(count, int64)
    cdef View output = writable_view(hashes)
    cdef Bytes key
    cdef int64_t row
    for row in range(count):
        if not column.read(row, &key):
            return pure_form("aiokproto.producer.partitioner", "key_hashes")(keys)
        (<int64_t *> output.ptr)[row] = 0 if key.start == NULL else murmur2_hash(key.start, key.size) & 0x7FFFFFFF
    return hashes


cdef uint32_t murmur2_hash(const unsigned char *data, Py_ssize_t length) noexcept nogil:
    cdef uint32_t h = SEED ^ <uint32_t> length
    cdef uint32_t k
    cdef Py_ssize_t position = 0
    cdef int shift = 0
    while length - position >= 4:
        # On a little-endian machine, compilers turn this into one load.
        k = data[position] | (<uint32_t> data[position + 1]) << 8
        k |= (<uint32_t> data[position + 2]) << 16 | (<uint32_t> data[position + 3]) << 24
        k *= M
        h = (h * M) ^ ((k ^ (k >> 24)) * M)
        position += 4
    if position < length:
        while position < length:
            h ^= (<uint32_t> data[position]) << shift
            shift += 8
            position += 1
        h *= M
    h = (h ^ (h >> 13)) * M
    return h ^ (h >> 15)
