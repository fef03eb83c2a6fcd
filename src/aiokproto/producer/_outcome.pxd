# cython: language_level=3
"""A batch's result as compiled modules read it, and how they make a record's result from it."""

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
    """Return the topic, partition, offset and timestamp of a record in a written batch."""
    cdef RecordMetadata metadata = RecordMetadata.__new__(RecordMetadata)
    metadata.topic = result.topic
    metadata.partition = result.partition
    metadata.offset = result.base_offset + index if result.base_offset >= 0 else -1
    metadata.timestamp = timestamp if result.append_time < 0 else result.append_time
    return metadata


cdef inline object record_result(ProduceResult result, long long index, long long timestamp):
    """Return a record's metadata, or its error."""
    if result.written:
        result.observed = True
        return metadata_of(result, index, timestamp)
    # A method of the Python subclass does this: batches rarely fail or are split.
    return result.record_result(index, timestamp)
