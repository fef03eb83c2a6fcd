# cython: language_level=3
"""Records in less memory, made in less time: twins of `aiokproto.types.Record` and `records.record.BatchRecord`.

Numbers are kept as C has them, and become Python's when they are asked for.
"""

cimport cython
from cpython.object cimport PyObject_GenericSetAttr, PyTypeObject
from libc.stdint cimport int32_t, int64_t

from copyreg import __newobj__ as newobj

cdef object CREATE_TIME = object()

cdef extern from "Python.h":
    void PyObject_GC_Track(object)
    bint PyObject_GC_IsTracked(object)


cdef object create_time():
    # Not when this is imported, which is while that is.
    from aiokproto.types import TimestampType

    return TimestampType.CREATE_TIME


cdef inline int set_attribute(record, name, value) except -1:
    # From now on it may hold anything, and so be part of a cycle.
    if not PyObject_GC_IsTracked(record):
        PyObject_GC_Track(record)
    return PyObject_GenericSetAttr(record, name, value)


cdef tuple state(record, tuple names):
    """What `pickle` and `copy` make of a class with slots: either form reads what the other has written."""
    slots = {name: getattr(record, name) for name in names}
    return newobj, (type(record),), (getattr(record, "__dict__", None), slots)


@cython.freelist(1024)
cdef class BatchRecord:
    def __init__(self, int64_t offset, int64_t timestamp, key, value, headers=()):
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers

    def __setattr__(self, name, value):
        set_attribute(self, name, value)

    def __eq__(self, other):
        cdef BatchRecord its
        if not isinstance(other, BatchRecord):
            return NotImplemented
        its = other
        return (
            self.offset == its.offset
            and self.timestamp == its.timestamp
            and self.key == its.key
            and self.value == its.value
            and self.headers == its.headers
        )

    __hash__ = None

    def __repr__(self):
        return (
            f"BatchRecord(offset={self.offset}, timestamp={self.timestamp}, key={self.key!r}, "
            f"value={self.value!r}, headers={self.headers!r})"
        )

    def __reduce__(self):
        return state(self, ("headers", "key", "offset", "timestamp", "value"))


@cython.freelist(1024)
cdef class Record:
    def __init__(
        self,
        topic,
        int32_t partition,
        int64_t offset,
        int64_t timestamp,
        key,
        value,
        headers=(),
        timestamp_type=CREATE_TIME,
        int32_t leader_epoch=-1,
    ):
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers
        self.timestamp_type = create_time() if timestamp_type is CREATE_TIME else timestamp_type
        self.leader_epoch = leader_epoch

    def __setattr__(self, name, value):
        set_attribute(self, name, value)

    def __repr__(self):
        return (
            f"Record(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, headers={self.headers!r})"
        )

    def __reduce__(self):
        return state(
            self,
            (
                "headers",
                "key",
                "leader_epoch",
                "offset",
                "partition",
                "timestamp",
                "timestamp_type",
                "topic",
                "value",
            ),
        )


@cython.freelist(64)
cdef class RecordMetadata:
    def __init__(self, str topic not None, int32_t partition, int64_t offset, int64_t timestamp):
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.timestamp = timestamp

    cdef tuple fields(self):
        return self.topic, self.partition, self.offset, self.timestamp

    def __eq__(self, other):
        if not isinstance(other, RecordMetadata):
            return NotImplemented
        return self.fields() == (<RecordMetadata> other).fields()

    def __hash__(self):
        return hash(self.fields())

    def __repr__(self):
        return (
            f"RecordMetadata(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp})"
        )

    def __reduce__(self):
        return type(self), self.fields()


# Named after where users import them from: pickles name it, and must be read where nothing is compiled, too.
(<PyTypeObject *> BatchRecord).tp_name = b"aiokproto.records.record.BatchRecord"
(<PyTypeObject *> Record).tp_name = b"aiokproto.types.Record"
(<PyTypeObject *> RecordMetadata).tp_name = b"aiokproto.types.RecordMetadata"
