# cython: language_level=3
"""The compiled hashes of :mod:`aiokproto.producer.partitioner`."""

from libc.stdint cimport int64_t, uint32_t

from aiokproto.accelerator.layout cimport Bytes
from aiokproto.records._columns cimport Column, column_of
from aiokproto.accelerator.views cimport View, room_in

from aiokproto.accelerator import pure_form

cdef uint32_t M = 0x5BD1E995
cdef uint32_t SEED = 0x9747B28C


def murmur2(data) -> int:
    """The 32-bit murmur2 hash of ``data``, signed as in Java."""
    cdef uint32_t h
    if type(data) is not bytes:
        return pure_form("aiokproto.producer.partitioner", "murmur2")(data)
    h = hashed(data, len(<bytes> data))
    return (<long long> h) - 0x100000000 if h > 0x7FFFFFFF else h


def key_hash(key) -> int:
    """The positive hash of a key."""
    if type(key) is not bytes:
        return pure_form("aiokproto.producer.partitioner", "key_hash")(key)
    # No cache: that of the pure form spares a loop in Python.
    return hashed(key, len(<bytes> key)) & 0x7FFFFFFF


def key_hashes(keys):
    """The hash of each key of a column; any number where there is none."""
    from numpy import empty, int64

    cdef int64_t count = len(keys)
    cdef Column column = column_of(keys, count)
    found = empty(count, int64)
    cdef View room = room_in(found)
    cdef Bytes key
    cdef int64_t row
    for row in range(count):
        if not column.take(row, &key):
            return pure_form("aiokproto.producer.partitioner", "key_hashes")(keys)
        (<int64_t *> room.at)[row] = 0 if key.start == NULL else hashed(key.start, key.size) & 0x7FFFFFFF
    return found


cdef uint32_t hashed(const unsigned char *data, Py_ssize_t length) noexcept nogil:
    cdef uint32_t h = SEED ^ <uint32_t> length
    cdef uint32_t k
    cdef Py_ssize_t at = 0
    cdef int shift = 0
    while length - at >= 4:
        # Compilers make this the one load it is on a little-endian machine.
        k = data[at] | (<uint32_t> data[at + 1]) << 8 | (<uint32_t> data[at + 2]) << 16 | (<uint32_t> data[at + 3]) << 24
        k *= M
        h = (h * M) ^ ((k ^ (k >> 24)) * M)
        at += 4
    if at < length:
        while at < length:
            h ^= (<uint32_t> data[at]) << shift
            shift += 8
            at += 1
        h *= M
    h = (h ^ (h >> 13)) * M
    return h ^ (h >> 15)
