# cython: language_level=3
"""The compiled forms of :mod:`aiokproto.types`: records that need less memory and less time.

Numbers are stored as C integers, and become Python objects when they are read.
"""

cimport cython
from libc.stdint cimport int32_t, int64_t

from aiokproto.accelerator.naming cimport name_type, reduce_slots, set_attribute

from types import GenericAlias

from aiokproto.accelerator import Documentation, Signature

cdef object CREATE_TIME = object()


cdef object create_time():
    # Import it here, because `aiokproto.types` imports this module before it's complete itself.
    from aiokproto.types import TimestampType

    return TimestampType.CREATE_TIME


@cython.final
cdef class Origin:
    pass


# The origin of a record that was created without the constructor, as pickle does.
cdef Origin NO_ORIGIN = new_origin(None, 0, None, 0, None)


@cython.freelist(1024)
cdef class Record:
    __doc__ = Documentation()
    __signature__ = Signature()

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
        if timestamp_type is CREATE_TIME:
            timestamp_type = create_time()
        self.origin = new_origin(topic, partition, timestamp_type, leader_epoch, None)
        self.offset = offset
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers

    __class_getitem__ = classmethod(GenericAlias)

    cdef inline Origin get_origin(self):
        return NO_ORIGIN if self.origin is None else self.origin

    @property
    def topic(self):
        return self.get_origin().topic

    @topic.setter
    def topic(self, value):
        cdef Origin origin = self.get_origin()
        self.origin = new_origin(value, origin.partition, origin.timestamp_type, origin.leader_epoch, origin.ownership)

    @property
    def partition(self):
        return self.get_origin().partition

    @partition.setter
    def partition(self, int32_t value):
        cdef Origin origin = self.get_origin()
        self.origin = new_origin(origin.topic, value, origin.timestamp_type, origin.leader_epoch, origin.ownership)

    @property
    def timestamp_type(self):
        return self.get_origin().timestamp_type

    @timestamp_type.setter
    def timestamp_type(self, value):
        cdef Origin origin = self.get_origin()
        self.origin = new_origin(origin.topic, origin.partition, value, origin.leader_epoch, origin.ownership)

    @property
    def leader_epoch(self):
        return self.get_origin().leader_epoch

    @leader_epoch.setter
    def leader_epoch(self, int32_t value):
        cdef Origin origin = self.get_origin()
        self.origin = new_origin(origin.topic, origin.partition, origin.timestamp_type, value, origin.ownership)

    @property
    def _ownership(self):
        return self.get_origin().ownership

    @_ownership.setter
    def _ownership(self, value):
        cdef Origin origin = self.get_origin()
        self.origin = new_origin(origin.topic, origin.partition, origin.timestamp_type, origin.leader_epoch, value)

    @property
    def error(self):
        return None

    @property
    def raw_key(self):
        return self.key

    @property
    def raw_value(self):
        return self.value

    def __setattr__(self, name, value):
        set_attribute(self, name, value)

    def __repr__(self):
        return (
            f"Record(topic={self.topic!r}, partition={self.partition}, offset={self.offset}, "
            f"timestamp={self.timestamp}, key={self.key!r}, value={self.value!r}, headers={self.headers!r})"
        )

    def __reduce__(self):
        reduced = reduce_slots(
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
        # In the pure form, this slot has no default.
        reduced[2][1]["_ownership"] = None
        return reduced


@cython.freelist(64)
cdef class RecordMetadata:
    __doc__ = Documentation()
    __signature__ = Signature()

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


name_type(Record, b"aiokproto.types.Record")
name_type(RecordMetadata, b"aiokproto.types.RecordMetadata")
