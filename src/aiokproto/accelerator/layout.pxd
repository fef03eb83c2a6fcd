# cython: language_level=3
"""The positions of the fields of a magic 2 record. Whatever the bytes contain, the code never reads outside of them."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from aiokproto.accelerator.varints cimport read_unsigned, unsigned, unsigned_size, write_unsigned, zigzag


cdef struct Bytes:
    const uint8_t *start
    # -1 for null, as in Kafka.
    Py_ssize_t size


cdef struct Fields:
    int64_t timestamp_delta
    int64_t offset_delta
    Bytes key
    Bytes value
    const uint8_t *headers


cdef inline const uint8_t *read_fields(const uint8_t *at, const uint8_t *stop, Fields *fields) noexcept nogil:
    """Return where the record ends, or NULL if it isn't a record, or doesn't end by ``stop``.

    The headers, at least one byte, are between ``fields.headers`` and the end. They aren't parsed.
    """
    cdef uint64_t raw
    cdef const uint8_t *end
    at = read_unsigned(at, stop, 32, &raw)
    # An odd number is a negative length. The first byte is the attributes, of which no bit is defined yet.
    if at == NULL or raw & 1 or raw >> 1 == 0 or raw >> 1 > <uint64_t> (stop - at):
        return NULL
    end = at + (raw >> 1)
    at = read_unsigned(at + 1, end, 64, &raw)
    if at == NULL:
        return NULL
    fields.timestamp_delta = zigzag(raw)
    at = read_unsigned(at, end, 32, &raw)
    if at == NULL:
        return NULL
    fields.offset_delta = zigzag(raw)
    at = read_bytes(at, end, &fields.key)
    if at == NULL:
        return NULL
    at = read_bytes(at, end, &fields.value)
    # A record without headers ends with a zero.
    if at == NULL or at == end or (at[0] == 0) != (at + 1 == end):
        return NULL
    fields.headers = at
    return end


cdef inline const uint8_t *read_bytes(const uint8_t *at, const uint8_t *end, Bytes *field) noexcept nogil:
    """Read a signed length (negative for null) and that many bytes. Return their end, or NULL if it's after ``end``."""
    cdef uint64_t raw
    at = read_unsigned(at, end, 32, &raw)
    if at == NULL:
        return NULL
    field.start = at
    field.size = -1
    if raw & 1:
        return at
    if raw >> 1 > <uint64_t> (end - at):
        return NULL
    field.size = <Py_ssize_t> (raw >> 1)
    return at + field.size


cdef inline Bytes bytes_of(object content) noexcept:
    """Return the memory of a ``bytes`` object, or null for None. It's valid as long as the object lives."""
    cdef Bytes field
    field.start = NULL
    field.size = -1
    if content is not None:
        field.start = <const uint8_t *> PyBytes_AS_STRING(content)
        field.size = PyBytes_GET_SIZE(content)
    return field


cdef inline Py_ssize_t size_of(Bytes field) noexcept nogil:
    """Return how many bytes `write_bytes` will write."""
    return 1 if field.size < 0 else unsigned_size(unsigned(field.size)) + field.size


cdef inline uint8_t *write_bytes(uint8_t *at, Bytes field) noexcept nogil:
    """Write a length (-1 for null) and that many bytes. The caller has checked that there's room."""
    if field.size < 0:
        return write_unsigned(at, unsigned(-1))
    at = write_unsigned(at, unsigned(field.size))
    memcpy(at, field.start, field.size)
    return at + field.size
