# cython: language_level=3
"""Handing out record after record: twins of ``aiokproto.consumer.handing``."""

cimport cython
from cpython.ref cimport Py_REFCNT

from aiokproto.accelerator.awaiting cimport Call, answers_directly


cdef class Hand:
    cdef public list open
    cdef public object hand

    def __init__(self):
        self.open = []


cdef object take(Hand hand):
    record = hand.open.pop()
    hand.hand = record
    return record


@cython.final
cdef class RecordIterator:
    cdef Hand _hand
    cdef object _more
    cdef Next last

    def __init__(self, Hand hand not None, more):
        self._hand = hand
        self._more = more

    def __aiter__(self):
        return self

    def __anext__(self):
        cdef Next call = self.last
        # One that is over and that nobody else has may be used again: here and in `call` are two references.
        if call is None or Py_REFCNT(call) > 2 or not call.over():
            call = self.last = Next.__new__(Next)
            call.hand = self._hand
            call.more = self._more
        call.renew()
        return call


async def take_later(Hand hand, more):
    """The next record, when there is one."""
    await more()
    return take(hand)


@cython.final
cdef class Next(Call):
    """Takes a record, when it is awaited and not before: who cancels it loses none."""
    cdef Hand hand
    cdef object more

    cdef object begin(self):
        if self.hand.open:
            return take(self.hand)
        self.inner = take_later(self.hand, self.more)


answers_directly(Next)
