# cython: language_level=3
"""The compiled form of :mod:`aiokproto.producer.appender`: the code that runs for every record."""

cimport cython

from aiokproto.accelerator.awaiting cimport DirectCoroutine, register
from aiokproto.accelerator.layout cimport bytes_of
from aiokproto.accelerator.naming cimport name_type
from aiokproto.producer._delivery cimport BatchSlice, Delivery, new_delivery
from aiokproto.producer._queue cimport OpenBatchSlot, TopicQueues
from aiokproto.records._writer cimport NO_HEADERS, RecordWriter

from types import GenericAlias

from aiokproto.accelerator import Documentation, Signature
from aiokproto.application.calls import failure
from aiokproto.producer.partitioner import check_partition, key_hash
from aiokproto.producer.record import PendingRecord, ProducerRecord, as_bytes, check_headers, check_timestamp
from aiokproto.records.writer import encode_headers

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident() nogil

cdef extern from *:
    """
    #include <time.h>
    static long long now_ms(void) {
        struct timespec now;
        timespec_get(&now, TIME_UTC);
        return (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000;
    }
    """
    long long now_ms() noexcept


cdef class RecordAppender:
    __doc__ = Documentation()
    __signature__ = Signature()

    cdef readonly dict _ready_topics
    cdef public object _partitioner
    cdef public bint _has_pipeline
    # The event loop's thread; see the pure form.
    cdef public unsigned long _thread
    # None means the system clock, which is read without a Python call.
    cdef public object _milliseconds
    # The result of the last lookup. Most records have the same topic as the one before.
    cdef object last_topic
    cdef TopicQueues last_queues

    def __init__(self, partitioner):
        self._ready_topics = {}
        self._partitioner = partitioner
        self._has_pipeline = False
        self._thread = 0
        self._milliseconds = None

    __class_getitem__ = classmethod(GenericAlias)

    def _set_ready(self, topic, TopicQueues queues):
        # The remembered lookup must not outlive the right to append.
        self.last_topic = self.last_queues = None
        if queues is None:
            self._ready_topics.pop(topic, None)
        else:
            self._ready_topics[topic] = queues

    cdef inline long long now(self):
        return now_ms() if self._milliseconds is None else self._milliseconds()

    def _now_ms(self):
        return self.now()

    def post(self, topic, value, *, key=None, headers=(), partition=None, timestamp=None):
        cdef PostCall call = PostCall.__new__(PostCall)
        call.appender = self
        call.topic = topic
        call.value = value
        call.key = key
        call.headers = headers
        call.partition = partition
        call.timestamp = timestamp
        return call

    def _append_later(self, record):
        raise NotImplementedError

    def _append_in_pipeline(self, topic, record):
        raise NotImplementedError

    def _append(self, topic, value, key, headers, partition, timestamp):
        return self.append(topic, value, key, headers, partition, timestamp)

    cdef object append(
        self, object topic, object value, object key, object headers, object partition, object timestamp
    ):
        cdef long long when
        cdef OpenBatchSlot slot
        cdef TopicQueues queues
        cdef Py_ssize_t index
        if type(value) is not bytes and value is not None:
            value = as_bytes("value", value)
        if type(key) is not bytes and key is not None:
            key = as_bytes("key", key)
        if headers or headers is None:
            headers = check_headers(headers)
        when = self.now() if timestamp is None else check_timestamp(timestamp)
        # This comes before the remembered lookup, which only the event loop's thread may read or write.
        if self._thread != PyThread_get_thread_ident():
            return PendingRecord(topic, partition, when, key, value, headers)
        # Compare identities: callers mostly pass the same string object, and an equal one is found in the dict. A new
        # appender's last topic is None.
        if topic is self.last_topic and topic is not None:
            queues = self.last_queues
        else:
            queues = self._ready_topics.get(topic)
            if queues is not None:
                self.last_topic = topic
                self.last_queues = queues
        if queues is None:
            return PendingRecord(topic, partition, when, key, value, headers)
        if partition is not None or key is not None or self._partitioner is not None:
            partition = self.choose_partition(queues, partition, key, value)
        slot = queues.sticky if partition is None else queues.queues[partition]
        if slot.batch is not None:
            if headers:
                encoded = encode_headers(headers)
                index = slot.batch.put(when, bytes_of(key), bytes_of(value), bytes_of(encoded))
            else:
                index = slot.batch.put(when, bytes_of(key), bytes_of(value), NO_HEADERS)
            if index >= 0:
                return new_delivery(slot.outcome, index, when)
        return PendingRecord(topic, partition, when, key, value, headers)

    def _choose_partition(self, TopicQueues queues not None, partition, key, value):
        return self.choose_partition(queues, partition, key, value)

    cdef object choose_partition(self, TopicQueues queues, object partition, object key, object value):
        count = len(queues.queues)
        if partition is not None:
            return check_partition(partition, queues.name, count)
        if self._partitioner is not None:
            try:
                chosen = self._partitioner(queues.name, key, value, range(count), queues.available)
            except Exception:
                raise
            except BaseException as error:
                raise failure(error, "partitioner") from error
            return None if chosen is None else check_partition(chosen, queues.name, count, "the partitioner's ")
        return None if key is None else key_hash(key) % count

    def _append_run(self, topic, records, Py_ssize_t start):
        cdef TopicQueues queues
        cdef RecordWriter batch
        cdef long long now
        cdef Py_ssize_t position, first
        # This check comes first, as in `append`.
        if self._thread != PyThread_get_thread_ident():
            return None
        queues = self._ready_topics.get(topic)
        if queues is None or self._partitioner is not None or queues.sticky.batch is None:
            return None
        batch = queues.sticky.batch
        now = self.now()
        first = batch.count
        for position in range(start, len(records)):
            value = records[position]
            # A run takes exact bytes only. The pure form accepts subclasses in a run too; here they're appended one at
            # a time, with the same result.
            if type(value) is not bytes or batch.put(now, bytes_of(None), bytes_of(value), NO_HEADERS) < 0:
                break
        return BatchSlice(queues.sticky.outcome, first, batch.count - first, now) if batch.count > first else None


@cython.final
cdef class PostCall(DirectCoroutine):
    cdef RecordAppender appender
    cdef object topic
    cdef object value
    cdef object key
    cdef object headers
    cdef object partition
    cdef object timestamp

    cdef object run(self):
        if self.appender._has_pipeline:
            record = ProducerRecord(self.value, self.key, self.headers, self.partition, self.timestamp)
            self.continuation = self.appender._append_in_pipeline(self.topic, record)
            return None
        appended = self.appender.append(self.topic, self.value, self.key, self.headers, self.partition, self.timestamp)
        if type(appended) is Delivery:
            return appended
        # Create a coroutine only now, since nearly every post() returns without one.
        self.continuation = self.appender._append_later(appended)


register(PostCall)
name_type(RecordAppender, b"aiokproto.producer.appender.RecordAppender")
