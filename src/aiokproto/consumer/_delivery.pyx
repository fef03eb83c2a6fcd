# cython: language_level=3
"""The compiled forms of :mod:`aiokproto.consumer.delivery`."""

cimport cython
from cpython.ref cimport Py_REFCNT

from aiokproto.accelerator.awaiting cimport Call, answers_directly
from aiokproto.accelerator.naming cimport name_type

from aiokproto.accelerator import Documentation, Signature

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident() nogil


cdef class DeliveryState:
    __doc__ = Documentation()
    __signature__ = Signature()

    cdef public list open
    cdef public object current
    cdef public unsigned long thread

    def __init__(self):
        self.open = []
        self.thread = PyThread_get_thread_ident()


cdef object take(DeliveryState delivery):
    # A consumer is its event loop's alone. Where another thread calls it all the same, this is no reason to crash.
    with cython.critical_section(delivery):
        record = delivery.open.pop()
        delivery.current = record
    return record


@cython.final
cdef class RecordIterator:
    __doc__ = Documentation()
    __signature__ = Signature()

    cdef DeliveryState _delivery
    cdef object _reader
    cdef Next last

    def __init__(self, DeliveryState delivery not None, reader):
        self._delivery = delivery
        self._reader = reader

    def __aiter__(self):
        return self

    @cython.critical_section
    def __anext__(self):
        cdef Next call = self.last
        # A finished call that nothing else refers to is reused: `last` and `call` are two references.
        if call is None or Py_REFCNT(call) > 2 or not call.over():
            # The last one is still awaited, or referenced elsewhere: a second wait must be an object of its own.
            call = self.last = Next.__new__(Next)
            call.delivery = self._delivery
            call.reader = self._reader
        call.renew()
        return call


async def take_later(DeliveryState delivery, reader):
    """Wait for records, then take the next one."""
    await reader.open()
    return take(delivery)


@cython.final
cdef class Next(Call):
    """Takes a record when it is awaited and not before, so that cancelling it loses none."""
    cdef DeliveryState delivery
    cdef object reader

    cdef object begin(self):
        if self.delivery.open and self.delivery.thread == PyThread_get_thread_ident():
            return take(self.delivery)
        # A coroutine only when there is something to wait for.
        self.inner = take_later(self.delivery, self.reader)


answers_directly(Next)
name_type(DeliveryState, b"aiokproto.consumer.delivery.DeliveryState")
name_type(RecordIterator, b"aiokproto.consumer.delivery.RecordIterator")
