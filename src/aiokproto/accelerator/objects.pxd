# cython: language_level=3
"""The records that users hold, and how a reader makes them: quicker than by calling the class."""

from libc.stdint cimport int32_t, int64_t


cdef extern from "Python.h":
    void PyObject_GC_UnTrack(object)


cdef class BatchRecord:
    cdef public int64_t offset
    cdef public int64_t timestamp
    cdef public object key
    cdef public object value
    cdef public object headers


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


# What a reader puts into a record cannot refer back to it: the garbage collector need not walk over millions of them.

cdef inline BatchRecord new_batch_record(int64_t offset, int64_t timestamp, object key, object value, object headers):
    cdef BatchRecord record = BatchRecord.__new__(BatchRecord)
    PyObject_GC_UnTrack(record)
    record.offset = offset
    record.timestamp = timestamp
    record.key = key
    record.value = value
    record.headers = headers
    return record


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
):
    cdef Record record = Record.__new__(Record)
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
    return record


cdef class RecordMetadata:
    cdef readonly str topic
    cdef readonly int32_t partition
    cdef readonly int64_t offset
    cdef readonly int64_t timestamp
    cdef tuple fields(self)
