# cython: language_level=3
"""The queues of a topic as the compiled appender reads them."""

from aiokproto.producer._outcome cimport ProduceResult
from aiokproto.records._writer cimport RecordWriter


cdef class OpenBatchSlot:
    cdef RecordWriter batch
    # The batch's own, read for every record of it.
    cdef ProduceResult outcome


cdef class TopicQueues:
    cdef public str name
    cdef public list queues
    cdef public list available
    cdef public OpenBatchSlot sticky
    cdef public Py_ssize_t sticky_bytes
