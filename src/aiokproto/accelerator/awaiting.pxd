from cpython.object cimport PyObject

cdef extern from *:
    ctypedef int (*sendfunc)(PyObject *, PyObject *, PyObject **) noexcept


cdef class DirectCoroutine:
    # The coroutine that waits for the result, if any.
    cdef object continuation
    cdef int state
    cdef object run(self)
    cdef void finish(self)
    cdef bint is_finished(self)
    cdef void reset(self)


# Make the instances of a subclass of DirectCoroutine awaitable. Call this for every subclass.
cdef void register(type kind)

# Set the slots of a class that isn't a DirectCoroutine but has an __await__, and does all its work in `send`.
cdef void set_am_send(type kind, sendfunc send)
