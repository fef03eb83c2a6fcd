# cython: language_level=3
"""What all compiled forms of Python classes need: their name, their attributes, and their state for pickle."""

from cpython.object cimport PyObject_GenericSetAttr, PyTypeObject


cdef extern from "Python.h":
    void PyObject_GC_Track(object)
    void PyObject_GC_UnTrack(object)
    bint PyObject_GC_IsTracked(object)


cdef inline void name_type(type kind, const char *name) noexcept:
    """Name a class after the module that users import it from, so pure Python can read its pickles."""
    (<PyTypeObject *> kind).tp_name = name


cdef inline int set_attribute(object instance, object name, object value) except -1:
    """Set an attribute of an object that the garbage collector may not track."""
    # The object may refer to anything now, and so be part of a cycle.
    if not PyObject_GC_IsTracked(instance):
        PyObject_GC_Track(instance)
    return PyObject_GenericSetAttr(instance, name, value)


cdef inline tuple reduce_slots(object instance, tuple names):
    """Return what pickle would return for a Python class with slots, so each form can read the other's pickles."""
    from copyreg import __newobj__

    slots = {name: getattr(instance, name) for name in names}
    return __newobj__, (type(instance),), (getattr(instance, "__dict__", None), slots)
