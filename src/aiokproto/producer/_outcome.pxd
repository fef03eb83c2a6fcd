# cython: language_level=3
"""The result of a batch as compiled modules read it, and how they make the result of a record from it."""

from aiokproto._types cimport RecordMetadata


cdef class ProduceResult:
    cdef public str topic
    cdef public int partition
    cdef public bint done
    cdef public bint written
    cdef public bint observed
    cdef public long long base_offset
    cdef public long long append_time


cdef inline RecordMetadata metadata_of(ProduceResult result, long long index, long long timestamp):
    """Return where a record of a batch that was written is."""
    cdef RecordMetadata found = RecordMetadata.__new__(RecordMetadata)
    found.topic = result.topic
    found.partition = result.partition
    found.offset = result.base_offset + index if result.base_offset >= 0 else -1
    found.timestamp = timestamp if result.append_time < 0 else result.append_time
    return found


cdef inline object record_result(ProduceResult result, long long index, long long timestamp):
    """Return a record's metadata, or its error."""
    if result.written:
        result.observed = True
        return metadata_of(result, index, timestamp)
    # A method of the Python subclass: batches that failed or were split are rare.
    return result.record_result(index, timestamp)
