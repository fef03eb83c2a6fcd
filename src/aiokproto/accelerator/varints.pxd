# cython: language_level=3
"""Variable-length integers, read and written in C. Like `records.varint`, but never past the end."""

from libc.stdint cimport int64_t, uint8_t, uint64_t


cdef inline const uint8_t *read_unsigned(
    const uint8_t *at, const uint8_t *end, int bits, uint64_t *value
) noexcept nogil:
    """Return where the number ends, or NULL if the bytes end within it, or it has more than ``bits`` bits."""
    cdef uint64_t byte
    cdef int shift = 0
    if at < end and at[0] < 128:
        value[0] = at[0]
        return at + 1
    value[0] = 0
    while at < end and shift < bits:
        byte = at[0]
        at += 1
        value[0] |= (byte & 127) << shift
        if byte < 128:
            # The last byte has room for only a few bits: four of 32, one of 64.
            if bits - shift < 7 and byte >> (bits - shift):
                return NULL
            return at
        shift += 7
    return NULL


cdef inline int64_t zigzag(uint64_t raw) noexcept nogil:
    """Return the signed number that an unsigned number encodes."""
    return <int64_t> ((raw >> 1) ^ (0 - (raw & 1)))


cdef inline uint64_t unsigned(int64_t value) noexcept nogil:
    """Return the unsigned number that encodes a signed number."""
    cdef uint64_t raw = <uint64_t> value
    return (raw << 1) ^ (0 - (raw >> 63))


cdef inline int unsigned_size(uint64_t value) noexcept nogil:
    """Return how many bytes `write_unsigned` will write."""
    cdef int size = 1
    while value > 127:
        value >>= 7
        size += 1
    return size


cdef inline uint8_t *write_unsigned(uint8_t *at, uint64_t value) noexcept nogil:
    """Write the number and return where it ends. The caller has checked that there's room."""
    while value > 127:
        at[0] = <uint8_t> (value & 127 | 128)
        at += 1
        value >>= 7
    at[0] = <uint8_t> value
    return at + 1
