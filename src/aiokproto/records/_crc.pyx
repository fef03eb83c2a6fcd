# cython: language_level=3
"""The compiled form of `join` in :mod:`aiokproto.records.crc`."""

from libc.stdint cimport uint32_t, uint64_t

from aiokproto.accelerator import pure_form

cdef uint32_t POLYNOMIAL = 0x82F63B78
cdef uint32_t ONE = <uint32_t> 1 << 31

# The powers x, x^2, x^4, and so on, each the square of the one before.
cdef uint32_t[64] squares


cdef uint32_t multiply(uint32_t a, uint32_t b) noexcept nogil:
    """Return the product of two polynomials, modulo the polynomial of the checksum."""
    cdef uint32_t product = 0
    while a:
        if a & ONE:
            product ^= b
        a <<= 1
        b = b >> 1 ^ (POLYNOMIAL if b & 1 else 0)
    return product


cdef void fill_squares() noexcept:
    cdef uint32_t power = ONE >> 1
    cdef int index
    for index in range(64):
        squares[index] = power
        power = multiply(power, power)


# Filled when the module is loaded: 64 entries take a few microseconds.
fill_squares()


def join(first, second, length):
    """Return the checksum of two adjacent pieces of data from the checksums of the pieces."""
    if not (0 <= first < 1 << 32 and 0 <= second < 1 << 32 and 0 <= length < 1 << 60):
        return pure_form("aiokproto.records.crc", "join")(first, second, length)
    cdef uint64_t left = length
    cdef uint32_t power = ONE
    # Each byte is a multiplication by x^8.
    cdef int bit = 3
    while left:
        if left & 1:
            power = multiply(squares[bit], power)
        left >>= 1
        bit += 1
    return multiply(power, first) ^ <uint32_t> second
