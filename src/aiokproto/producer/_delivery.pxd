# cython: language_level=3
"""Deliveries, and how the appender makes one for each record without calling the class."""

from aiokproto.producer._outcome cimport ProduceResult


cdef class Delivery:
    cdef ProduceResult _outcome
    cdef int _index
    cdef readonly long long timestamp
    cdef object get(self)
    cdef object known(self)


cdef class BatchSlice:
    cdef readonly ProduceResult outcome
    cdef readonly int first
    cdef readonly int count
    cdef long long _timestamp


cdef inline Delivery new_delivery(ProduceResult outcome, int index, long long timestamp):
    cdef Delivery made = Delivery.__new__(Delivery)
    made._outcome = outcome
    made._index = index
    made.timestamp = timestamp
    return made
