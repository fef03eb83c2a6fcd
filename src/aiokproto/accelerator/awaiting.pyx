# cython: language_level=3
"""Coroutines that end where they begin, nearly always: ``await`` them for less than what a coroutine of Python costs.

A :class:`Call` does its work when it is awaited, not before, and goes on with a real coroutine where it has to wait. So
it can be had for all that a coroutine can: a task may run it, it may be cancelled, and it complains when it is forgotten.
"""

from cpython.exc cimport PyErr_Fetch, PyErr_Restore
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF

from collections.abc import Coroutine

cdef extern from *:
    """
    /* What `await` and `async for` ask for, without the detour by way of Python methods that Cython would make. */
    static void set_slots(PyTypeObject *type, iternextfunc next, sendfunc send) {
        type->tp_iternext = next;
        type->tp_as_async->am_send = send;
        PyType_Modified(type);
    }
    static int send_to(PyObject *me, PyObject **answer) {
        return Py_TYPE(me)->tp_as_async->am_send(me, Py_None, answer);
    }
    static void warn_forgotten(PyTypeObject *type) {
        if (PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "coroutine '%s' was never awaited", type->tp_name) < 0)
            PyErr_WriteUnraisable((PyObject *)type);
    }
    """
    ctypedef PyObject *(*iternextfunc)(PyObject *) noexcept
    int send_to(PyObject *me, PyObject **answer) noexcept
    void set_slots(PyTypeObject *type, iternextfunc next, sendfunc send)
    void warn_forgotten(PyTypeObject *type)
    int PyIter_Send(PyObject *receiver, PyObject *arg, PyObject **result) noexcept
    void PyErr_SetNone(PyObject *kind)
    void PyErr_SetObject(PyObject *kind, PyObject *value)
    PyObject *PyExc_StopIteration
    PyObject *Py_None

cdef enum:
    NEW
    UNDER_WAY
    DONE

cdef enum:
    # PySendResult
    RETURN = 0
    ERROR = -1
    NEXT = 1


cdef class Call:
    """A coroutine whose work is :meth:`begin`: it returns the result, or sets ``inner`` to what it takes to get one."""

    cdef object begin(self):
        raise NotImplementedError

    def __await__(self):
        return self

    def __next__(self):
        raise AssertionError("its slot is set below")

    def send(self, value):
        cdef PyObject *result = NULL
        cdef int status = step(<PyObject *> self, <PyObject *> value, &result)
        answer = <object> result
        Py_DECREF(answer)
        if status == RETURN:
            raise StopIteration(answer)
        return answer

    def throw(self, kind, value=None, traceback=None):
        if self.state == UNDER_WAY:
            try:
                if value is None and traceback is None:
                    return self.inner.throw(kind)
                return self.inner.throw(kind, value, traceback)
            except BaseException:
                self.end()
                raise
        if self.state == DONE:
            raise RuntimeError("cannot reuse already awaited coroutine")
        self.end()
        error = kind if isinstance(kind, BaseException) else kind() if value is None else value
        raise error.with_traceback(traceback) if traceback is not None else error

    def close(self):
        inner = self.inner
        self.end()
        if inner is not None:
            inner.close()

    cdef void end(self):
        self.state = DONE
        self.inner = None

    cdef bint over(self):
        return self.state == DONE

    cdef void renew(self):
        self.state = NEW

    def __dealloc__(self):
        cdef PyObject *kind
        cdef PyObject *value
        cdef PyObject *traceback
        if self.state == NEW:
            PyErr_Fetch(&kind, &value, &traceback)
            warn_forgotten((<PyObject *> self).ob_type)
            PyErr_Restore(kind, value, traceback)


cdef int step(PyObject *me, PyObject *arg, PyObject **result) except ERROR:
    """``am_send``: begin, or go on."""
    cdef Call call = <Call> me
    cdef int status
    cdef PyObject *kind
    cdef PyObject *value
    cdef PyObject *traceback
    if call.state == NEW:
        if arg != Py_None:
            raise TypeError("can't send non-None value to a just-started coroutine")
        call.state = DONE
        answer = call.begin()
        if call.inner is None:
            Py_INCREF(answer)
            result[0] = <PyObject *> answer
            return RETURN
        call.state = UNDER_WAY
    elif call.state == DONE:
        raise RuntimeError("cannot reuse already awaited coroutine")
    status = PyIter_Send(<PyObject *> call.inner, arg, result)
    if status != NEXT:
        call.state = DONE
        # What it raised, if it did, is set, and nothing that is done here may touch it.
        PyErr_Fetch(&kind, &value, &traceback)
        # A call that is used again would take it for its own.
        call.inner = None
        PyErr_Restore(kind, value, traceback)
    return status


cdef PyObject *go_on(PyObject *me) noexcept:
    """``tp_iternext``: the same for who knows nothing of ``am_send``, and so for Python from 3.12 on."""
    cdef PyObject *answer = NULL
    cdef int status = send_to(me, &answer)
    if status == NEXT:
        return answer
    if status == RETURN:
        stop(answer)
        Py_DECREF(<object> answer)
    return NULL


cdef void stop(PyObject *answer) noexcept:
    """Set StopIteration with an answer."""
    if answer == Py_None:
        PyErr_SetNone(PyExc_StopIteration)
    elif isinstance(<object> answer, (tuple, BaseException)):
        # Of these, Python would make the arguments of the exception, or the exception.
        made = StopIteration(<object> answer)
        PyErr_SetObject(PyExc_StopIteration, <PyObject *> made)
    else:
        PyErr_SetObject(PyExc_StopIteration, answer)


cdef void answers_by(type kind, sendfunc send):
    set_slots(<PyTypeObject *> kind, go_on, send)


cdef void answers_directly(type kind):
    # To be called with every subclass: slots are inherited before they are set.
    answers_by(kind, <sendfunc> <void *> step)
    Coroutine.register(kind)


answers_directly(Call)
