# cython: language_level=3
"""The compiled forms of :mod:`aiokproto.producer.delivery`."""

cimport cython
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF

from aiokproto._types cimport RecordMetadata
from aiokproto.accelerator.awaiting cimport Call, answers_by, answers_directly, sendfunc
from aiokproto.accelerator.naming cimport name_type
from aiokproto.producer._outcome cimport ProduceResult, metadata_of, record_result

from asyncio import InvalidStateError

from aiokproto.accelerator import Documentation, Signature
from aiokproto.producer.waiting import wait_done


# Millions may be held, so the collector is not to look through them. A cycle takes a task that waits for a delivery that
# it alone holds: the batch's outcome, which always comes, ends it.
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
        return delivered(self).__await__()

    def __iter__(self):
        # asyncio.gather and others write `yield from awaitable.__await__()` until Python 3.12.
        return self

    def outcome(self):
        cdef Waiting call = Waiting.__new__(Waiting)
        call.result = self._outcome
        call.index = self._index
        call.timestamp = self.timestamp
        return call

    def done(self):
        return self._outcome.done

    def run(self):
        return BatchSlice(self._outcome, self._index, 1, self.timestamp)

    def result(self):
        return self.get()

    cdef object get(self):
        # The common case without a look at the type of the result.
        if self._outcome.written:
            return record_result(self._outcome, self._index, self.timestamp)
        outcome = self.known()
        if type(outcome) is RecordMetadata:
            return outcome
        raise outcome.with_traceback(None)

    def exception(self):
        outcome = self.known()
        return None if type(outcome) is RecordMetadata else outcome

    cdef object known(self):
        if not self._outcome.done:
            raise InvalidStateError(f"the outcome of {self._outcome} is not known yet")
        return record_result(self._outcome, self._index, self.timestamp)

    def __repr__(self):
        state = "done" if self._outcome.done else "pending"
        return f"<Delivery {state}: record {self._index} of {self._outcome}>"


cdef int send_result(PyObject *me, PyObject *arg, PyObject **result) except -1:
    """``am_send``: the result, once it is known."""
    metadata = (<Delivery> me).get()
    Py_INCREF(metadata)
    result[0] = <PyObject *> metadata
    return 0


answers_by(Delivery, <sendfunc> <void *> send_result)


async def delivered(Delivery delivery):
    """Wait for a delivery's result."""
    await wait_done(delivery._outcome)
    return delivery.result()


async def awaited(Waiting call):
    """Wait for what a call is after."""
    await wait_done(call.result)
    return call.outcome()


cdef class Waiting(Call):
    """Waits for a record's outcome."""
    cdef ProduceResult result
    cdef int index
    cdef long long timestamp

    cdef object begin(self):
        if self.result.done:
            return self.outcome()
        self.inner = awaited(self)

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

    def __getitem__(self, int place):
        return record_result(self.outcome, self.first + place, self._timestamp)

    def results(self):
        cdef ProduceResult result = self.outcome
        cdef list found
        cdef Py_ssize_t place
        # Failed or split batches have a result of their own for each record.
        if not result.written:
            return [result.record_result(self.first + place, self._timestamp) for place in range(self.count)]
        result.observed = True
        found = PyList_New(self.count)
        for place in range(self.count):
            one = metadata_of(result, self.first + place, self._timestamp)
            Py_INCREF(one)
            PyList_SET_ITEM(found, place, one)
        return found


answers_directly(Waiting)
name_type(Delivery, b"aiokproto.producer.delivery.Delivery")
name_type(BatchSlice, b"aiokproto.producer.delivery.BatchSlice")
