# cython: language_level=3
"""The compiled forms of :mod:`aiokproto.records.writer`."""

cimport cython
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize
from libc.stdint cimport INT64_MAX, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy

from aiokproto.accelerator.layout cimport Bytes, bytes_of, size_of, write_bytes
from aiokproto.accelerator.naming cimport name_type
from aiokproto.accelerator.varints cimport unsigned, unsigned_size, write_unsigned

from aiokproto.accelerator import Documentation, Signature, pure_form
from aiokproto.errors import InvalidRecordError

# The batch's header is written once the batch is complete.
cdef Py_ssize_t HEADER_SIZE = 61
cdef Py_ssize_t FIRST_RESERVATION = 1024

cdef Bytes NO_HEADERS
NO_HEADERS.start = <const uint8_t *> b"\0"
NO_HEADERS.size = 1


cdef class RecordWriter:
    __doc__ = Documentation()
    __signature__ = Signature()

    def __cinit__(self):
        self._buffer = bytearray(HEADER_SIZE)
        self.size = HEADER_SIZE
        self.base_timestamp = self.max_timestamp = -1
        self.max_bytes = INT64_MAX

    def __init__(self, max_bytes=None, base_timestamp=None):
        if max_bytes is not None:
            self.max_bytes = max_bytes
        if base_timestamp is not None:
            if not -1 <= base_timestamp <= INT64_MAX:
                raise invalid_timestamp(base_timestamp)
            self.base_timestamp = base_timestamp
            self._based = True

    def __reduce__(self):
        raise TypeError("an open batch can be neither copied nor pickled")

    def append(self, timestamp, key, value, headers=()):
        """Write a record. Return its index in the batch, or None if it doesn't fit."""
        cdef Bytes encoded = NO_HEADERS
        cdef Py_ssize_t index
        cdef int64_t when
        try:
            when = timestamp
        except OverflowError:
            raise invalid_timestamp(timestamp) from None
        # Check it before converting key and value, like the pure form, so the same error is raised.
        self.base_for(when)
        if key is not None and type(key) is not bytes:
            key = plain(key)
        if value is not None and type(value) is not bytes:
            value = plain(value)
        if headers:
            headers = encode_headers(headers)
            encoded = bytes_of(headers)
        # Two threads at once would write to the same bytes, or to memory that the other thread has just freed.
        with cython.critical_section(self):
            index = self.put(when, bytes_of(key), bytes_of(value), encoded)
        return None if index < 0 else index

    cdef Py_ssize_t put(self, int64_t timestamp, Bytes key, Bytes value, Bytes headers) except -2:
        cdef Py_ssize_t index = self.count
        cdef Py_ssize_t length, size
        cdef int64_t base = self.base_for(timestamp)
        cdef uint64_t delta = unsigned(timestamp - base)
        cdef uint8_t *at
        length = (
            1 + unsigned_size(delta) + unsigned_size(unsigned(index)) + size_of(key) + size_of(value) + headers.size
        )
        size = self.size + unsigned_size(unsigned(length)) + length
        # The sizes of all parts are known before anything is written.
        if index and size > self.max_bytes:
            return -1
        self.reserve(size)
        at = <uint8_t *> PyByteArray_AS_STRING(self._buffer) + self.size
        at = write_unsigned(at, unsigned(length))
        at[0] = 0
        at = write_unsigned(at + 1, delta)
        at = write_unsigned(at, unsigned(index))
        at = write_bytes(at, key)
        at = write_bytes(at, value)
        memcpy(at, headers.start, headers.size)
        self.size = size
        self.base_timestamp = base
        if timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        self.count = index + 1
        return index

    cdef int64_t base_for(self, int64_t timestamp) except -2:
        """Return the base of the timestamp delta."""
        cdef int64_t base = self.base_timestamp if self.count or self._based else timestamp
        # Neither is less than -1, so only this difference can overflow.
        if timestamp < -1 or (base < 0 and timestamp == INT64_MAX):
            raise invalid_timestamp(timestamp)
        return base

    cdef int reserve(self, Py_ssize_t size) except -1:
        """Grow the buffer for a batch of at least ``size`` bytes, up to the batch's limit."""
        cdef Py_ssize_t room = PyByteArray_GET_SIZE(self._buffer)
        if size <= room:
            return 0
        # The buffer doubles, but not beyond the limit, which the accumulator raises as it reserves memory.
        room = max(2 * room, FIRST_RESERVATION)
        if room > self.max_bytes:
            room = <Py_ssize_t> self.max_bytes
        return PyByteArray_Resize(self._buffer, max(size, room))

    @cython.critical_section
    def take(self):
        """Close the batch and return its bytes."""
        cdef bytearray batch = self._buffer
        if not self.count:
            raise InvalidRecordError("the batch has no records")
        if not self.size:
            raise InvalidRecordError("the batch was closed before")
        # The buffer grows in steps, so its tail isn't part of the batch.
        PyByteArray_Resize(batch, self.size)
        self._buffer = bytearray()
        self.size = 0
        self.max_bytes = 0
        return batch


def encode_headers(headers):
    """Return headers in wire format, starting with their count."""
    cdef tuple pairs
    cdef Py_ssize_t length
    cdef Py_ssize_t size
    cdef uint8_t *at
    cdef const char *name
    pairs = tuple(headers) if type(headers) is list else headers if type(headers) is tuple else None
    if pairs is None or not all_plain(pairs):
        return pure_form("aiokproto.records.writer", "encode_headers")(headers)
    size = unsigned_size(unsigned(len(pairs)))
    for key, value in pairs:
        # The string caches its UTF-8 form, so the second pass doesn't encode it again.
        PyUnicode_AsUTF8AndSize(key, &length)
        size += unsigned_size(unsigned(length)) + length + size_of(bytes_of(value))
    encoded = PyBytes_FromStringAndSize(NULL, size)
    at = write_unsigned(<uint8_t *> PyBytes_AS_STRING(encoded), unsigned(len(pairs)))
    for key, value in pairs:
        name = PyUnicode_AsUTF8AndSize(key, &length)
        at = write_unsigned(at, unsigned(length))
        memcpy(at, name, length)
        at = write_bytes(at + length, bytes_of(value))
    return encoded


cdef bint all_plain(tuple pairs):
    """Return whether each header is a tuple of a string and bytes or None."""
    for pair in pairs:
        if type(pair) is not tuple or len(<tuple> pair) != 2:
            return False
        key, value = <tuple> pair
        if type(key) is not str or (value is not None and type(value) is not bytes):
            return False
    return True


def plain(content):
    """Return the bytes of any bytes-like object, whatever its item size."""
    if type(content) is bytes:
        return content
    try:
        return bytes(memoryview(content))
    except TypeError:
        raise TypeError(f"expected bytes or None, got {type(content).__name__}") from None


cdef invalid_timestamp(timestamp):
    return InvalidRecordError(f"timestamp {timestamp} is neither -1 nor milliseconds since the epoch in 63 bits")


name_type(RecordWriter, b"aiokproto.records.writer.RecordWriter")
