# cython: language_level=3
"""Deliveries, and how the appender creates one for each record without calling the class."""

from aiokproto.producer._outcome cimport ProduceResult


cdef class Delivery:
    cdef ProduceResult _outcome
    cdef int _index
    cdef readonly long long timestamp
    cdef object get_result(self)
    cdef object get_outcome(self)


cdef class BatchSlice:
    cdef public ProduceResult outcome
    cdef public int first
    cdef public int count
    cdef long long _timestamp


cdef inline Delivery new_delivery(ProduceResult outcome, int index, long long timestamp):
    cdef Delivery delivery = Delivery.__new__(Delivery)
    delivery._outcome = outcome
    delivery._index = index
    delivery.timestamp = timestamp
    return delivery
