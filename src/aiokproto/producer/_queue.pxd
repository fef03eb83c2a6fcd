# cython: language_level=3
"""The queues of a topic as the compiled appender reads them."""

from aiokproto.producer._outcome cimport ProduceResult
from aiokproto.records._writer cimport RecordWriter


cdef class OpenBatchSlot:
    cdef RecordWriter batch
    # The outcome of `batch`. The appender reads it for each record.
    cdef ProduceResult outcome


cdef class TopicQueues:
    cdef public str name
    cdef public list queues
    cdef public list available
    cdef public OpenBatchSlot sticky
    cdef public Py_ssize_t sticky_bytes
