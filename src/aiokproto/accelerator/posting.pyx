# cython: language_level=3
"""What the producer does for every record: twins of parts of ``aiokproto.producer``."""

cimport cython
from cpython.list cimport PyList_New, PyList_SET_ITEM
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF

from aiokproto.accelerator.awaiting cimport Call, answers_by, answers_directly, sendfunc
from aiokproto.accelerator.layout cimport bytes_of
from aiokproto.accelerator.objects cimport RecordMetadata
from aiokproto.accelerator.writing cimport NO_HEADERS, RecordWriter

from asyncio import InvalidStateError

from aiokproto.accelerator.writing import encode_headers

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


# -- what became of records

cdef class ProduceResult:
    cdef public str topic
    cdef public int partition
    cdef public bint done
    cdef public bint written
    cdef public bint observed
    cdef public long long base_offset
    cdef public long long append_time

    def __init__(self, str topic not None, int partition):
        self.topic = topic
        self.partition = partition
        self.done = self.written = self.observed = False
        self.base_offset = self.append_time = -1


cdef inline RecordMetadata located(ProduceResult settled, long long index, long long timestamp):
    cdef RecordMetadata found = RecordMetadata.__new__(RecordMetadata)
    found.topic = settled.topic
    found.partition = settled.partition
    found.offset = settled.base_offset + index if settled.base_offset >= 0 else -1
    found.timestamp = timestamp if settled.append_time < 0 else settled.append_time
    return found


cdef object outcome_of(ProduceResult settled, long long index, long long timestamp):
    """What became of a record: where it is, or an error."""
    if settled.written:
        settled.observed = True
        return located(settled, index, timestamp)
    return settled.record_result(index, timestamp)


# Millions may be held, so the collector is not to look through them. A cycle takes a task that waits for a delivery that
# it alone holds: the batch's outcome, which always comes, ends it.
@cython.final
@cython.no_gc
cdef class Delivery:
    cdef ProduceResult _outcome
    cdef int _index
    cdef readonly long long timestamp

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
        call.settled = self._outcome
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
        if self._outcome.written:
            return outcome_of(self._outcome, self._index, self.timestamp)
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
        return outcome_of(self._outcome, self._index, self.timestamp)

    def __repr__(self):
        state = "done" if self._outcome.done else "pending"
        return f"<Delivery {state}: record {self._index} of {self._outcome}>"


cdef int tell(PyObject *me, PyObject *arg, PyObject **result) except -1:
    """``am_send``: the result, once it is known."""
    answer = (<Delivery> me).get()
    Py_INCREF(answer)
    result[0] = <PyObject *> answer
    return 0


answers_by(Delivery, <sendfunc> <void *> tell)


async def delivered(Delivery delivery):
    """Wait for a delivery's result."""
    await wait_done(delivery._outcome)
    return delivery.result()


async def awaited(Waiting call):
    """Wait for what a call is after."""
    await wait_done(call.settled)
    return call.answer()


cdef class Waiting(Call):
    """Waits for a record's outcome."""
    cdef ProduceResult settled
    cdef int index
    cdef long long timestamp

    cdef object begin(self):
        if self.settled.done:
            return self.answer()
        self.inner = awaited(self)

    cdef object answer(self):
        return outcome_of(self.settled, self.index, self.timestamp)


@cython.final
@cython.no_gc
cdef class BatchSlice:
    cdef readonly ProduceResult outcome
    cdef readonly int first
    cdef readonly int count
    cdef long long _timestamp

    def __init__(self, ProduceResult outcome not None, int first, int count, long long timestamp):
        self.outcome = outcome
        self.first = first
        self.count = count
        self._timestamp = timestamp

    def __len__(self):
        return self.count

    def __getitem__(self, int place):
        return outcome_of(self.outcome, self.first + place, self._timestamp)

    def results(self):
        cdef ProduceResult settled = self.outcome
        cdef list found
        cdef Py_ssize_t place
        if not settled.written:
            return [settled.record_result(self.first + place, self._timestamp) for place in range(self.count)]
        settled.observed = True
        found = PyList_New(self.count)
        for place in range(self.count):
            one = located(settled, self.first + place, self._timestamp)
            Py_INCREF(one)
            PyList_SET_ITEM(found, place, one)
        return found


answers_directly(Waiting)


# -- records on their way in

cdef class OpenBatchSlot:
    cdef RecordWriter batch
    # The batch's own, which every record of it needs.
    cdef ProduceResult outcome

    @property
    def open(self):
        return self.batch

    @open.setter
    def open(self, RecordWriter batch):
        self.outcome = None if batch is None else batch.outcome
        self.batch = batch


cdef class TopicQueues:
    cdef public str name
    cdef public list queues
    cdef public list available
    cdef public OpenBatchSlot sticky
    cdef public Py_ssize_t sticky_bytes

    def __init__(self, str name not None):
        self.name = name
        self.queues = []
        self.available = []
        self.sticky_bytes = 0


cdef class RecordAppender:
    cdef readonly dict _ready_topics
    cdef public object _partitioner
    cdef public object _append_later
    # The event loop's: in another one nothing is appended at once, and there calls find out what is wrong.
    cdef public unsigned long _thread
    # None: the machine's clock, which is read without a call.
    cdef public object _wall
    # What was looked up last: most records follow one of the same topic.
    cdef object topic
    cdef TopicQueues queues

    def __init__(self, partitioner, append_later):
        self._ready_topics = {}
        self._partitioner = partitioner
        self._append_later = append_later
        self._thread = 0
        self._wall = None

    def _set_ready(self, topic, TopicQueues queues):
        self.topic = self.queues = None
        if queues is None:
            self._ready_topics.pop(topic, None)
        else:
            self._ready_topics[topic] = queues

    cdef inline long long wall(self):
        return now_ms() if self._wall is None else self._wall()

    def _now_ms(self):
        return self.wall()

    def post(self, topic, value=..., *, key=None, headers=(), partition=None, timestamp=None):
        cdef Post call = Post.__new__(Post)
        call.appender = self
        call.topic = topic
        call.value = value
        call.key = key
        call.headers = headers
        call.partition = partition
        call.timestamp = timestamp
        return call

    def _append(self, topic, value, key, headers, partition, timestamp):
        return self.append(topic, value, key, headers, partition, timestamp)

    cdef object append(self, object topic, object value, object key, object headers, object partition, object timestamp):
        cdef long long when
        cdef OpenBatchSlot opening
        cdef TopicQueues queues
        cdef Py_ssize_t index
        if type(value) is not bytes and value is not None:
            value = as_bytes("value", value)
        if type(key) is not bytes and key is not None:
            key = as_bytes("key", key)
        if headers:
            headers = check_headers(headers)
        when = self.wall() if timestamp is None else check_timestamp(timestamp)
        if topic is self.topic and topic is not None:
            queues = self.queues
        else:
            queues = self._ready_topics.get(topic)
            if queues is not None:
                self.topic = topic
                self.queues = queues
        if queues is None or self._thread != PyThread_get_thread_ident():
            return PendingRecord(topic, partition, when, key, value, headers)
        if partition is not None or key is not None or self._partitioner is not None:
            partition = self.choose(queues, partition, key, value)
        opening = queues.sticky if partition is None else queues.queues[partition]
        if opening.batch is not None:
            if headers:
                packed = encode_headers(headers)
                index = opening.batch.put(when, bytes_of(key), bytes_of(value), bytes_of(packed))
            else:
                index = opening.batch.put(when, bytes_of(key), bytes_of(value), NO_HEADERS)
            if index >= 0:
                return delivery(opening.outcome, index, when)
        return PendingRecord(topic, partition, when, key, value, headers)

    def _choose_partition(self, TopicQueues queues not None, partition, key, value):
        return self.choose(queues, partition, key, value)

    cdef object choose(self, TopicQueues queues, object partition, object key, object value):
        count = len(queues.queues)
        if partition is not None:
            return check_partition(partition, queues.name, count)
        if self._partitioner is not None:
            chosen = self._partitioner(queues.name, key, value, range(count), queues.available)
            return check_partition(chosen, queues.name, count, "the partitioner's ")
        return None if key is None else key_hash(key) % count

    def _append_run(self, topic, records, Py_ssize_t start):
        cdef TopicQueues queues = self._ready_topics.get(topic)
        cdef RecordWriter batch
        cdef long long now
        cdef Py_ssize_t place, first
        if queues is None or self._partitioner is not None or queues.sticky.batch is None:
            return None
        if self._thread != PyThread_get_thread_ident():
            return None
        batch = queues.sticky.batch
        now = self.wall()
        first = batch.count
        for place in range(start, len(records)):
            value = records[place]
            if type(value) is not bytes or batch.put(now, bytes_of(None), bytes_of(value), NO_HEADERS) < 0:
                break
        return BatchSlice(queues.sticky.outcome, first, batch.count - first, now) if batch.count > first else None


cdef object delivery(ProduceResult outcome, int index, long long timestamp):
    cdef Delivery made = Delivery.__new__(Delivery)
    made._outcome = outcome
    made._index = index
    made.timestamp = timestamp
    return made


@cython.final
cdef class Post(Call):
    cdef RecordAppender appender
    cdef object topic
    cdef object value
    cdef object key
    cdef object headers
    cdef object partition
    cdef object timestamp

    cdef object begin(self):
        appended = self.appender.append(self.topic, self.value, self.key, self.headers, self.partition, self.timestamp)
        if type(appended) is Delivery:
            return appended
        self.inner = self.appender._append_later(appended)


answers_directly(Post)


# Last: the package of these looks for the classes above, which must be whole by then.
from aiokproto.producer.partitioner import check_partition, key_hash
from aiokproto.producer.record import PendingRecord, as_bytes, check_headers, check_timestamp
from aiokproto.producer.waiting import wait_done
