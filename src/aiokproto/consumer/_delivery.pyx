# cython: language_level=3
"""The compiled forms of :mod:`aiokproto.consumer.delivery`."""

cimport cython
from cpython.ref cimport Py_REFCNT

from aiokproto.accelerator.awaiting cimport DirectCoroutine, register
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
    # A consumer belongs to its event loop. If another thread calls it anyway, the process must not crash.
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
    cdef NextRecord last

    def __init__(self, DeliveryState delivery not None, reader):
        self._delivery = delivery
        self._reader = reader

    def __aiter__(self):
        return self

    @cython.critical_section
    def __anext__(self):
        cdef NextRecord coroutine = self.last
        # Reuse a finished coroutine that nothing else refers to. `last` and `coroutine` are the two references.
        if coroutine is None or Py_REFCNT(coroutine) > 2 or not coroutine.is_finished():
            # The previous coroutine is still awaited, or referenced elsewhere, so this wait needs its own.
            coroutine = self.last = NextRecord.__new__(NextRecord)
            coroutine.delivery = self._delivery
            coroutine.reader = self._reader
        coroutine.reset()
        return coroutine


async def wait_and_take(DeliveryState delivery, reader):
    """Wait for records, then take the next one."""
    await reader.open()
    return take(delivery)


@cython.final
cdef class NextRecord(DirectCoroutine):
    """Takes a record only when it's awaited, so cancelling it loses no record."""
    cdef DeliveryState delivery
    cdef object reader

    cdef object run(self):
        if self.delivery.open and self.delivery.thread == PyThread_get_thread_ident():
            return take(self.delivery)
        # Create a coroutine only when there is something to wait for.
        self.continuation = wait_and_take(self.delivery, self.reader)


register(NextRecord)
name_type(DeliveryState, b"aiokproto.consumer.delivery.DeliveryState")
name_type(RecordIterator, b"aiokproto.consumer.delivery.RecordIterator")
