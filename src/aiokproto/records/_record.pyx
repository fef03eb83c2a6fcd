# cython: language_level=3
"""The compiled forms of :mod:`aiokproto.records.record`.

If the bytes aren't the expected records, the pure reader reads them again and reports the damage.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t

from aiokproto._types cimport Origin, Record, new_origin, new_record
from aiokproto.accelerator.layout cimport Bytes, Fields, read_bytes, read_fields
from aiokproto.accelerator.naming cimport PyObject_GC_UnTrack, name_type, reduce_slots, set_attribute
from aiokproto.accelerator.varints cimport read_unsigned

from aiokproto.accelerator import Documentation, Signature, pure_form
from aiokproto.errors import CorruptRecordError, DecodeError

# These limits are close to int64's. Outside of them, the pure reader checks every sum.
cdef int64_t SAFE_TIMESTAMP = INT64_MAX - (1 << 13)
cdef int64_t SAFE_OFFSET = INT64_MAX - (<int64_t> 1 << 31)
cdef int64_t NO_LIMIT = <int64_t> 1 << 62
# The same as in the pure form.
cdef int64_t HEADER_WEIGHT = 192


cdef struct Slice:
    int64_t base_offset
    int64_t base_timestamp
    bint log_append_time
    int64_t append_time
    # How many records to read.
    int64_t most
    # The maximum size of a record with headers, in bytes.
    int64_t largest
    # How many more headers may be read.
    int64_t headers
    # True if the reader stopped because the next record has more headers than that.
    bint full
    # Size in bytes of the records that were read.
    int64_t read


@cython.freelist(1024)
cdef class BatchRecord:
    __doc__ = Documentation()
    __signature__ = Signature()

    cdef public int64_t offset
    cdef public int64_t timestamp
    cdef public object key
    cdef public object value
    cdef public object headers

    def __init__(self, int64_t offset, int64_t timestamp, key, value, headers=()):
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers

    def __setattr__(self, name, value):
        set_attribute(self, name, value)

    def __eq__(self, other):
        cdef BatchRecord record
        if not isinstance(other, BatchRecord):
            return NotImplemented
        record = other
        return (
            self.offset == record.offset
            and self.timestamp == record.timestamp
            and self.key == record.key
            and self.value == record.value
            and self.headers == record.headers
        )

    __hash__ = None

    def __repr__(self):
        return (
            f"BatchRecord(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, "
            f"value={self.value!r}, headers={self.headers!r})"
        )

    def __reduce__(self):
        return reduce_slots(self, ("headers", "key", "offset", "timestamp", "value"))


cdef inline BatchRecord new_batch_record(int64_t offset, int64_t timestamp, object key, object value, object headers):
    cdef BatchRecord record = BatchRecord.__new__(BatchRecord)
    # As in `new_record`, the content can't refer back to the record.
    PyObject_GC_UnTrack(record)
    record.offset = offset
    record.timestamp = timestamp
    record.key = key
    record.value = value
    record.headers = headers
    return record


cdef class RecordMaker:
    __doc__ = Documentation()
    __signature__ = Signature()

    cdef Origin origin

    def __init__(self, topic, int32_t partition, timestamp_type, int32_t leader_epoch, ownership=None):
        self.origin = new_origin(topic, partition, timestamp_type, leader_epoch, ownership)

    def __call__(self, int64_t offset, int64_t timestamp, key, value, headers):
        return new_record(offset, timestamp, key, value, headers, self.origin)


def read_records(data, int64_t count, int64_t base_offset, int64_t base_timestamp, append_time, make):
    """Read ``count`` records, which must fill ``data``, the decompressed records section of a batch."""
    cdef Slice part = slice_of(base_offset, base_timestamp, append_time, count, NO_LIMIT, NO_LIMIT)
    cdef list records = read_view(data, &part, make, True)
    if records is None:
        pure = pure_form("aiokproto.records.record", "read_records")
        return pure(data, count, base_offset, base_timestamp, append_time, make)
    return apply_make(records, make, 0, count)


def read_slice(data, header, int64_t done, int64_t most, make, int64_t most_headers, int64_t largest):
    """Read some of the records of a batch."""
    base_offset, base_timestamp, append_time, total = header
    cdef Slice part = slice_of(base_offset, base_timestamp, append_time, most, largest, most_headers)
    cdef list records = read_view(data, &part, make, False)
    if records is None:
        pure = pure_form("aiokproto.records.record", "read_slice")
        return pure(data, header, done, most, make, most_headers, largest)
    return apply_make(records, make, done, total), part.read


cdef inline Slice slice_of(
    int64_t base_offset, int64_t base_timestamp, append_time, int64_t most, int64_t largest, int64_t headers
):
    return Slice(
        base_offset, base_timestamp, append_time is not None, append_time or 0, most, largest, headers, False, 0
    )


cdef list read_view(data, Slice *part, make, bint whole):
    """Return the records (`BatchRecord` unless ``make`` is a `RecordMaker`), or None if the pure reader has to read."""
    cdef RecordMaker maker = make if type(make) is RecordMaker else None
    cdef Py_buffer view
    # Leave other values to the pure reader, which checks each sum.
    if not (-SAFE_TIMESTAMP <= part.base_timestamp <= SAFE_TIMESTAMP and 0 <= part.base_offset < SAFE_OFFSET):
        return None
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        records = read_all(<const uint8_t *> view.buf, view.len, part, maker)
        return None if whole and part.read != view.len else records
    finally:
        PyBuffer_Release(&view)


cdef list apply_make(list records, make, int64_t done, int64_t total):
    """Return the results of a custom ``make``, which may reject a record as damaged."""
    cdef BatchRecord record
    cdef list results = []
    if type(make) is RecordMaker or make is BatchRecord:
        return records
    try:
        for record in records:
            results.append(make(record.offset, record.timestamp, record.key, record.value, record.headers))
    except DecodeError as error:
        raise CorruptRecordError(f"record {done + len(results)} of {total}: {error}") from None
    return results


cdef list read_all(const uint8_t *first, Py_ssize_t size, Slice *part, RecordMaker maker):
    """Return the records (as `BatchRecord` if there's no maker), or None if the bytes aren't that many records."""
    cdef const uint8_t *at = first
    cdef const uint8_t *stop = at + size
    cdef const uint8_t *end
    cdef Fields fields
    cdef int64_t base_offset = part.base_offset
    cdef int64_t base_timestamp = part.base_timestamp
    cdef bint log_append_time = part.log_append_time
    cdef int64_t timestamp = part.append_time
    cdef int64_t offset
    cdef list records = []
    cdef tuple headers
    cdef Origin origin = None if maker is None else maker.origin
    for _ in range(part.most):
        end = read_fields(at, stop, &fields)
        if end == NULL:
            # Don't raise an error here: the pure form reads the bytes again, and reports the damage.
            return None
        if not add(base_timestamp, fields.timestamp_delta, log_append_time, &timestamp):
            return None
        offset = base_offset + fields.offset_delta
        headers = ()
        if fields.headers[0]:
            headers = read_headers(fields.headers, end, end - at, part, len(records) > 0)
            if headers is None:
                if part.full:
                    break
                return None
        if maker is None:
            records.append(new_batch_record(offset, timestamp, content(&fields.key), content(&fields.value), headers))
        else:
            records.append(
                new_record(offset, timestamp, content(&fields.key), content(&fields.value), headers, origin)
            )
        at = end
    part.read = at - first
    return records


cdef inline bint add(int64_t base, int64_t delta, bint log_append_time, int64_t *timestamp) noexcept nogil:
    """Add, and return false if the sum overflows, which is damage even if LogAppendTime replaces the timestamp."""
    cdef int64_t total = <int64_t> (<uint64_t> base + <uint64_t> delta)
    # The sum has overflowed if two numbers with the same sign have a sum with the other sign.
    if ((base ^ total) & (delta ^ total)) < 0:
        return False
    if not log_append_time:
        timestamp[0] = total
    return True


cdef inline object content(Bytes *field):
    return None if field.size < 0 else PyBytes_FromStringAndSize(<const char *> field.start, field.size)


cdef tuple read_headers(const uint8_t *at, const uint8_t *end, Py_ssize_t size, Slice *part, bint may_stop):
    """Return the headers that fill the bytes.

    Return None if they don't fill them, if the record of ``size`` bytes exceeds the limit, or if it belongs to the next
    slice. The tuples are untracked at once; the garbage collector would otherwise do that later, because of their
    content.
    """
    cdef uint64_t raw_count
    cdef Bytes field
    cdef Py_ssize_t index, count
    cdef tuple headers
    at = read_unsigned(at, end, 32, &raw_count)
    # A header takes at least two bytes.
    if at == NULL or raw_count & 1 or raw_count >> 1 > <uint64_t> (end - at) // 2:
        return None
    count = <Py_ssize_t> (raw_count >> 1)
    if size + count * HEADER_WEIGHT > part.largest:
        return None
    if count > part.headers and may_stop:
        part.full = True
        return None
    part.headers -= count
    headers = PyTuple_New(count)
    for index in range(count):
        at = read_bytes(at, end, &field)
        if at == NULL or field.size < 0:
            return None
        key = PyUnicode_DecodeUTF8(<char *> field.start, field.size, "replace")
        at = read_bytes(at, end, &field)
        if at == NULL:
            return None
        header = (key, content(&field))
        PyObject_GC_UnTrack(header)
        # PyTuple_SET_ITEM steals a reference, but Cython doesn't know that.
        Py_INCREF(header)
        PyTuple_SET_ITEM(headers, index, header)
    PyObject_GC_UnTrack(headers)
    return headers if at == end else None


name_type(BatchRecord, b"aiokproto.records.record.BatchRecord")
name_type(RecordMaker, b"aiokproto.records.record.RecordMaker")
