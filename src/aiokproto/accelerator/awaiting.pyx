# cython: language_level=3
"""Coroutines that nearly always return without suspending, and cost less to await than a Python coroutine.

A :class:`DirectCoroutine` does its work when it's awaited, not before. If it has to wait, it continues as a real
coroutine. So it supports everything that a coroutine does: you can run it as a task or cancel it, and it warns if it's
never awaited.
"""

from cpython.exc cimport PyErr_Fetch, PyErr_Restore
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF

from collections.abc import Coroutine

cdef extern from *:
    """
    /* Set what `await` and `async for` call, without the detour through Python methods that Cython would make. */
    static void set_slots(PyTypeObject *type, iternextfunc next, sendfunc send) {
        type->tp_iternext = next;
        type->tp_as_async->am_send = send;
        PyType_Modified(type);
    }
    static int call_am_send(PyObject *me, PyObject **result) {
        return Py_TYPE(me)->tp_as_async->am_send(me, Py_None, result);
    }
    static void warn_forgotten(PyTypeObject *type) {
        if (PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "coroutine '%s' was never awaited", type->tp_name) < 0)
            PyErr_WriteUnraisable((PyObject *)type);
    }
    """
    ctypedef PyObject *(*iternextfunc)(PyObject *) noexcept
    int call_am_send(PyObject *me, PyObject **result) noexcept
    void set_slots(PyTypeObject *type, iternextfunc next, sendfunc send)
    void warn_forgotten(PyTypeObject *type)
    int PyIter_Send(PyObject *receiver, PyObject *arg, PyObject **result) noexcept
    void PyErr_SetNone(PyObject *kind)
    void PyErr_SetObject(PyObject *kind, PyObject *value)
    PyObject *PyExc_StopIteration
    PyObject *Py_None

cdef enum:
    CREATED
    SUSPENDED
    CLOSED

cdef enum:
    # PySendResult
    RETURN = 0
    ERROR = -1
    NEXT = 1


cdef class DirectCoroutine:
    """A coroutine that does its work in :meth:`run`, which returns the result or sets ``continuation`` to wait for
    it."""

    cdef object run(self):
        raise NotImplementedError

    def __await__(self):
        return self

    def __next__(self):
        raise AssertionError("register() replaces this slot")

    def send(self, value):
        cdef PyObject *result = NULL
        cdef int status = am_send(<PyObject *> self, <PyObject *> value, &result)
        sent = <object> result
        Py_DECREF(sent)
        if status == RETURN:
            raise StopIteration(sent)
        return sent

    def throw(self, kind, value=None, traceback=None):
        if self.state == SUSPENDED:
            try:
                if value is None and traceback is None:
                    return self.continuation.throw(kind)
                return self.continuation.throw(kind, value, traceback)
            except BaseException:
                self.finish()
                raise
        if self.state == CLOSED:
            raise RuntimeError("cannot reuse already awaited coroutine")
        self.finish()
        error = kind if isinstance(kind, BaseException) else kind() if value is None else value
        raise error.with_traceback(traceback) if traceback is not None else error

    def close(self):
        continuation = self.continuation
        self.finish()
        if continuation is not None:
            continuation.close()

    cdef void finish(self):
        self.state = CLOSED
        self.continuation = None

    cdef bint is_finished(self):
        return self.state == CLOSED

    cdef void reset(self):
        self.state = CREATED

    def __dealloc__(self):
        cdef PyObject *kind
        cdef PyObject *value
        cdef PyObject *traceback
        if self.state == CREATED:
            PyErr_Fetch(&kind, &value, &traceback)
            warn_forgotten((<PyObject *> self).ob_type)
            PyErr_Restore(kind, value, traceback)


cdef int am_send(PyObject *me, PyObject *arg, PyObject **result) except ERROR:
    """``am_send``: start, or continue."""
    cdef DirectCoroutine coroutine = <DirectCoroutine> me
    cdef int status
    cdef PyObject *kind
    cdef PyObject *value
    cdef PyObject *traceback
    if coroutine.state == CREATED:
        if arg != Py_None:
            raise TypeError("can't send non-None value to a just-started coroutine")
        coroutine.state = CLOSED
        returned = coroutine.run()
        if coroutine.continuation is None:
            Py_INCREF(returned)
            result[0] = <PyObject *> returned
            return RETURN
        coroutine.state = SUSPENDED
    elif coroutine.state == CLOSED:
        raise RuntimeError("cannot reuse already awaited coroutine")
    status = PyIter_Send(<PyObject *> coroutine.continuation, arg, result)
    if status != NEXT:
        coroutine.state = CLOSED
        # If the continuation raised, its error is set, and nothing that runs here may change it.
        PyErr_Fetch(&kind, &value, &traceback)
        # If the object is used again, it must not find the finished continuation.
        coroutine.continuation = None
        PyErr_Restore(kind, value, traceback)
    return status


cdef PyObject *tp_iternext(PyObject *me) noexcept:
    """``tp_iternext``: the same for callers that don't use ``am_send``, such as Python itself since 3.12."""
    cdef PyObject *result = NULL
    cdef int status = call_am_send(me, &result)
    if status == NEXT:
        return result
    if status == RETURN:
        set_stop_iteration(result)
        Py_DECREF(<object> result)
    return NULL


cdef void set_stop_iteration(PyObject *result) noexcept:
    """Set StopIteration with a result."""
    if result == Py_None:
        PyErr_SetNone(PyExc_StopIteration)
    elif isinstance(<object> result, (tuple, BaseException)):
        # Python would use a tuple as the arguments of the exception, and an exception as the exception itself.
        error = StopIteration(<object> result)
        PyErr_SetObject(PyExc_StopIteration, <PyObject *> error)
    else:
        PyErr_SetObject(PyExc_StopIteration, result)


cdef void set_am_send(type kind, sendfunc send):
    set_slots(<PyTypeObject *> kind, tp_iternext, send)


cdef void register(type kind):
    # Every subclass needs this call: it inherits its slots before they are set.
    set_am_send(kind, <sendfunc> <void *> am_send)
    Coroutine.register(kind)


register(DirectCoroutine)
