from cpython.object cimport PyObject

cdef extern from *:
    ctypedef int (*sendfunc)(PyObject *, PyObject *, PyObject **) noexcept


cdef class Call:
    cdef object inner
    cdef int state
    cdef object begin(self)
    cdef void end(self)
    cdef bint over(self)
    cdef void renew(self)


# Makes instances of a subclass of Call awaitable.
cdef void answers_directly(type kind)

# Likewise of a class that is no Call, has an __await__, and does it all in `send`.
cdef void answers_by(type kind, sendfunc send)
