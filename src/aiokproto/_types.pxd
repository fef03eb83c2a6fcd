# cython: language_level=3
"""The C fields of the classes of :mod:`aiokproto.types`, and how readers make records without calling the class."""

from libc.stdint cimport int32_t, int64_t

from aiokproto.accelerator.naming cimport PyObject_GC_UnTrack


cdef class Record:
    cdef public object topic
    cdef public int32_t partition
    cdef public int32_t leader_epoch
    cdef public int64_t offset
    cdef public int64_t timestamp
    cdef public object key
    cdef public object value
    cdef public object headers
    cdef public object timestamp_type
    cdef public object _ownership


cdef class RecordMetadata:
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp
    cdef tuple fields(self)


cdef inline Record new_record(
    object topic,
    int32_t partition,
    int64_t offset,
    int64_t timestamp,
    object key,
    object value,
    object headers,
    object timestamp_type,
    int32_t leader_epoch,
    object ownership,
):
    cdef Record record = Record.__new__(Record)
    # What a reader puts into a record cannot refer back to it: the collector need not walk over millions of them.
    PyObject_GC_UnTrack(record)
    record.topic = topic
    record.partition = partition
    record.offset = offset
    record.timestamp = timestamp
    record.key = key
    record.value = value
    record.headers = headers
    record.timestamp_type = timestamp_type
    record.leader_epoch = leader_epoch
    record._ownership = ownership
    return record
