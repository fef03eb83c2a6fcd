# cython: language_level=3
"""The compiled form of `ProduceResult` in :mod:`aiokproto.producer.outcome`."""

from aiokproto.accelerator.naming cimport name_type

from aiokproto.accelerator import Documentation, Signature


cdef class ProduceResult:
    __doc__ = Documentation()
    __signature__ = Signature()

    def __init__(self, str topic not None, int partition):
        self.topic = topic
        self.partition = partition
        self.done = self.written = self.observed = False
        self.base_offset = self.append_time = -1


name_type(ProduceResult, b"aiokproto.producer.outcome.ProduceResult")
