# cython: language_level=3
"""The compiled forms of :mod:`aiokproto.producer.queue`."""

from aiokproto.accelerator.naming cimport name_type
from aiokproto.producer._outcome cimport ProduceResult
from aiokproto.records._writer cimport RecordWriter

from aiokproto.accelerator import Documentation, Signature


cdef class OpenBatchSlot:
    __doc__ = Documentation()
    __signature__ = Signature()

    def __init__(self):
        self.batch = self.outcome = None

    @property
    def open(self):
        return self.batch

    @open.setter
    def open(self, RecordWriter batch):
        # The outcome is an attribute of the Python subclass, and the appender needs it for every record. So read it
        # once per batch.
        self.outcome = None if batch is None else batch.outcome
        self.batch = batch


cdef class TopicQueues:
    __doc__ = Documentation()
    __signature__ = Signature()

    def __init__(self, str name not None):
        self.name = name
        self.queues = []
        self.available = []
        self.sticky_bytes = 0


name_type(OpenBatchSlot, b"aiokproto.producer.queue.OpenBatchSlot")
name_type(TopicQueues, b"aiokproto.producer.queue.TopicQueues")
