# cython: language_level=3
"""The C fields of the classes of :mod:`aiokproto.types`, and how readers create records without calling the class."""

from libc.stdint cimport int32_t, int64_t

from aiokproto.accelerator.naming cimport PyObject_GC_UnTrack


cdef class Origin:
    """The attributes that all records of a batch share. It never changes, because it's shared."""

    cdef object topic
    cdef int32_t partition
    cdef int32_t leader_epoch
    cdef object timestamp_type
    cdef object ownership


cdef class Record:
    cdef Origin origin
    cdef public int64_t offset
    cdef public int64_t timestamp
    cdef public object key
    cdef public object value
    cdef public object headers
    cdef Origin get_origin(self)


cdef class RecordMetadata:
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp
    cdef tuple fields(self)


cdef inline Origin new_origin(
    object topic, int32_t partition, object timestamp_type, int32_t leader_epoch, object ownership
):
    cdef Origin origin = Origin.__new__(Origin)
    origin.topic = topic
    origin.partition = partition
    origin.timestamp_type = timestamp_type
    origin.leader_epoch = leader_epoch
    origin.ownership = ownership
    return origin


cdef inline Record new_record(
    int64_t offset, int64_t timestamp, object key, object value, object headers, Origin origin
):
    cdef Record record = Record.__new__(Record)
    # The content that a reader puts into a record can't refer back to it, so the collector doesn't have to traverse
    # millions of records.
    PyObject_GC_UnTrack(record)
    record.offset = offset
    record.timestamp = timestamp
    record.key = key
    record.value = value
    record.headers = headers
    record.origin = origin
    return record
