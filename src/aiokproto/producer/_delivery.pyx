# cython: language_level=3
"""The compiled forms of :mod:`aiokproto.producer.delivery`."""

cimport cython
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF

from aiokproto._types cimport RecordMetadata
from aiokproto.accelerator.awaiting cimport DirectCoroutine, register, sendfunc, set_am_send
from aiokproto.accelerator.naming cimport name_type
from aiokproto.producer._outcome cimport ProduceResult, metadata_of, record_result

from asyncio import InvalidStateError

from aiokproto.accelerator import Documentation, Signature
from aiokproto.producer.waiting import wait_done


# Millions of deliveries may be alive, so the collector doesn't track them. If a task awaits a delivery that only the
# task refers to, there's a cycle, but the batch's outcome always arrives and breaks it.
@cython.final
@cython.no_gc
cdef class Delivery:
    __doc__ = Documentation()
    __signature__ = Signature()

    def __init__(self, ProduceResult outcome not None, int index, long long timestamp):
        self._outcome = outcome
        self._index = index
        self.timestamp = timestamp

    def __await__(self):
        if self._outcome.done:
            return self
        return wait_for_result(self).__await__()

    def __iter__(self):
        # asyncio.gather and other callers write `yield from awaitable.__await__()` until Python 3.12.
        return self

    def outcome(self):
        cdef OutcomeCall call = OutcomeCall.__new__(OutcomeCall)
        call.result = self._outcome
        call.index = self._index
        call.timestamp = self.timestamp
        return call

    def done(self):
        return self._outcome.done

    def run(self):
        return BatchSlice(self._outcome, self._index, 1, self.timestamp)

    def result(self):
        return self.get_result()

    cdef object get_result(self):
        # The common case doesn't need to look at the type of the result.
        if self._outcome.written:
            return record_result(self._outcome, self._index, self.timestamp)
        outcome = self.get_outcome()
        if type(outcome) is RecordMetadata:
            return outcome
        raise outcome.with_traceback(None)

    def exception(self):
        outcome = self.get_outcome()
        return None if type(outcome) is RecordMetadata else outcome

    cdef object get_outcome(self):
        if not self._outcome.done:
            raise InvalidStateError(f"the outcome of {self._outcome} is not known yet")
        return record_result(self._outcome, self._index, self.timestamp)

    def __repr__(self):
        state = "done" if self._outcome.done else "pending"
        return f"<Delivery {state}: record {self._index} of {self._outcome}>"


cdef int send_result(PyObject *me, PyObject *arg, PyObject **result) except -1:
    """``am_send``: return the result once it's known."""
    metadata = (<Delivery> me).get_result()
    Py_INCREF(metadata)
    result[0] = <PyObject *> metadata
    return 0


set_am_send(Delivery, <sendfunc> <void *> send_result)


async def wait_for_result(Delivery delivery):
    """Wait for a delivery's result."""
    await wait_done(delivery._outcome)
    return delivery.result()


async def wait_for_outcome(OutcomeCall call):
    """Wait until the outcome is known, then return it."""
    await wait_done(call.result)
    return call.outcome()


cdef class OutcomeCall(DirectCoroutine):
    """Waits for a record's outcome."""
    cdef ProduceResult result
    cdef int index
    cdef long long timestamp

    cdef object run(self):
        if self.result.done:
            return self.outcome()
        self.continuation = wait_for_outcome(self)

    cdef object outcome(self):
        return record_result(self.result, self.index, self.timestamp)


@cython.final
@cython.no_gc
cdef class BatchSlice:
    __doc__ = Documentation()
    __signature__ = Signature()

    def __init__(self, ProduceResult outcome not None, int first, int count, long long timestamp):
        self.outcome = outcome
        self.first = first
        self.count = count
        self._timestamp = timestamp

    def __len__(self):
        return self.count

    def __getitem__(self, int index):
        return record_result(self.outcome, self.first + index, self._timestamp)

    def results(self):
        cdef ProduceResult result = self.outcome
        cdef list results
        cdef Py_ssize_t index
        # If the batch failed or was split, each record has its own result.
        if not result.written:
            return [result.record_result(self.first + index, self._timestamp) for index in range(self.count)]
        result.observed = True
        results = PyList_New(self.count)
        for index in range(self.count):
            metadata = metadata_of(result, self.first + index, self._timestamp)
            Py_INCREF(metadata)
            PyList_SET_ITEM(results, index, metadata)
        return results


register(OutcomeCall)
name_type(Delivery, b"aiokproto.producer.delivery.Delivery")
name_type(BatchSlice, b"aiokproto.producer.delivery.BatchSlice")
