"""Several threads at the same time, each with its own event loop and clients, or all with one codec.

Threads alternate with a global interpreter lock, and run at the same time on free-threaded Python.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import pytest

from aiokproto import Broker, Client, Consumer, Producer, accelerator, records
from aiokproto.accelerator import forms
from aiokproto.broker import ThreadedCluster
from aiokproto.codec.messages.fetch import FetchRequest, FetchTopic
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.codec.registry import request
from aiokproto.consumer.batch import FetchedBatch
from aiokproto.consumer.cursor import Cursor
from aiokproto.errors import ConfigurationError
from aiokproto.records import crc
from aiokproto.records.builder import BatchBuilder
from aiokproto.records.compression import Compression
from aiokproto.types import TopicPartition
from tests.accelerator.forms import not_compiled
from tests.timeouts import LONG_TIMEOUT

THREADS = 4
T = TypeVar("T")
FREE_THREADED = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Let the threads alternate often if there is a global lock, so that a race needs no second core."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def at_once(work: Callable[[int], T]) -> list[T]:
    """Return the results of a function that all threads call at the same time, each with its number."""
    start = threading.Barrier(THREADS)

    def run(number: int) -> T:
        start.wait(LONG_TIMEOUT)
        return work(number)

    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(run, range(THREADS)))


def in_loops(work: Callable[[int], Coroutine[object, object, T]]) -> list[T]:
    """The same for coroutines, each on its own event loop."""
    return at_once(lambda number: asyncio.run(work(number)))


@pytest.fixture
def kafka() -> Iterator[ThreadedCluster]:
    with ThreadedCluster(Broker()) as cluster:
        yield cluster


@pytest.mark.skipif(not FREE_THREADED, reason="this Python has a global lock")
def test_nothing_that_is_compiled_brings_the_global_lock_back() -> None:
    code = f"import sys, {', '.join(accelerator.COMPILED)}; print(sys._is_gil_enabled())"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_threads_that_are_the_first_to_use_the_package_find_it_complete() -> None:
    code = f"""
import sys, threading
sys.setswitchinterval(1e-6)
start = threading.Barrier({THREADS})
failed = []

def use(name):
    start.wait({LONG_TIMEOUT})
    try:
        import aiokproto
        getattr(aiokproto, name).__mro__
        from aiokproto import records
        builder = records.BatchBuilder()
        builder.append(1, None, b"value")
        (batch,) = records.decode(builder.close())
        assert [record.value for record in batch] == [b"value"]
        from aiokproto.codec.messages.metadata import MetadataRequest
        assert MetadataRequest.decode(MetadataRequest().encode(12), 12) == MetadataRequest()
    except BaseException as error:
        failed.append(error)

threads = [threading.Thread(target=use, args=[name]) for name in ("Producer", "Consumer", "Broker", "Client")]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(failed)
"""
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


async def flow(number: int, servers: str) -> list[bytes]:
    """Produce to this thread's own topic and to a shared one, and read both."""
    own, count = f"own-{number}", 300
    async with (
        Client(bootstrap_servers=servers) as client,
        Producer(bootstrap_servers=servers, linger_ms=1) as producer,
    ):
        assert (await client.request(MetadataRequest())).brokers
        deliveries = [await producer.post(own, b"%d" % index, key=b"k%d" % index) for index in range(count)]
        offsets = sorted([(await delivery).offset for delivery in deliveries])
        assert offsets == list(range(count))
        await producer.send_many("shared", [b"%d-%d" % (number, index) for index in range(count)])
    async with Consumer(own, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        for index in range(count):
            record = await anext(consumer)
            assert (record.offset, record.key, record.value) == (index, b"k%d" % index, b"%d" % index)
    found: list[bytes] = []
    async with Consumer("shared", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        while len(found) < THREADS * count:
            found += [record.value or b"" for record in await consumer.poll(timeout_ms=int(LONG_TIMEOUT * 1000))]
    return found


def test_clients_in_threads_of_their_own_share_a_cluster(kafka: ThreadedCluster) -> None:
    kafka.create_topic("shared")
    for number in range(THREADS):
        kafka.create_topic(f"own-{number}")
    results = in_loops(lambda number: flow(number, kafka.bootstrap_servers))
    for found in results:
        assert found == results[0]
        for number in range(THREADS):
            own = [value for value in found if value.startswith(b"%d-" % number)]
            assert own == [b"%d-%d" % (number, index) for index in range(300)]


def test_members_of_a_group_in_threads_of_their_own_share_its_partitions(kafka: ThreadedCluster) -> None:
    kafka.create_topic("flights", partitions=THREADS)
    count = 400
    read: list[tuple[int, int]] = []
    done = threading.Event()

    async def member(number: int) -> None:
        servers = kafka.bootstrap_servers
        if number == 0:
            async with Producer(bootstrap_servers=servers) as producer:
                await asyncio.gather(
                    *[producer.send("flights", b"", partition=index % THREADS) for index in range(count)]
                )
        async with Consumer(
            "flights", bootstrap_servers=servers, group_id="report", auto_offset_reset="earliest"
        ) as consumer:
            while not done.is_set():
                read.extend((record.partition, record.offset) for record in await consumer.poll(timeout_ms=20))
                if len(set(read)) == count:
                    done.set()

    in_loops(member)
    assert set(read) == {(index % THREADS, index // THREADS) for index in range(count)}


def test_a_client_is_refused_to_other_threads_while_its_own_goes_on(kafka: ThreadedCluster) -> None:
    kafka.create_topic("flights")
    count = 2000
    ready: list[Producer] = []
    there, stop = threading.Event(), threading.Event()

    async def owner() -> int:
        async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            await producer.send("flights", b"first")
            ready.append(producer)
            there.set()
            for index in range(count):
                # The string is new each time, so that the producer replaces what it remembers of the last one, which is
                # freed.
                await producer.post("".join(("fli", "ghts")), b"%d" % index)
            await producer.flush()
            stop.set()
            return (await producer.send("flights", b"last")).offset

    async def intruder() -> int:
        assert there.wait(LONG_TIMEOUT)
        refused = 0
        while not refused or not stop.is_set():
            with pytest.raises(ConfigurationError, match="event loop"):
                await ready[0].post("flights", b"not here")
            refused += 1
        return refused

    offset, *refusals = in_loops(lambda number: intruder() if number else owner())
    assert offset == count + 1
    assert all(refusals)


def test_an_open_batch_keeps_its_records_apart_when_several_threads_append_to_it() -> None:
    """This is about the compiled form. The other takes several steps of Python for a record."""
    writer = forms("aiokproto.records.writer", "RecordWriter").get("compiled")
    if writer is None:
        pytest.skip(not_compiled.kwargs["reason"])
    count = 5000
    batch = writer()

    def append(number: int) -> list[int]:
        return [batch.append(1, b"%d" % number, b"x" * (index % 50)) for index in range(count)]

    places = at_once(append)
    assert sorted(place for one in places for place in one) == list(range(THREADS * count))
    size = batch.size
    assert len(batch.take()) == size


@pytest.mark.parametrize("codec", list(Compression))
def test_record_batches_are_written_and_read_in_all_threads(codec: Compression) -> None:
    rows = [(1000 + index, b"key %d" % index, b"value" * (index % 40), [("h", b"%d" % index)]) for index in range(200)]
    expected = [(key, value, headers) for _, key, value, headers in rows]

    def work(_: int) -> bool:
        for _ in range(20):
            builder = BatchBuilder(compression=codec)
            for row in rows:
                builder.append(*row)
            (batch,) = records.decode(bytes(builder.close()))
            if [(record.key, record.value, list(record.headers)) for record in batch] != expected:
                return False
        return True

    assert at_once(work) == [True] * THREADS


def one_batch(count: int) -> bytes:
    builder = BatchBuilder()
    for index in range(count):
        builder.append(index, None, b"%d" % index)
    return bytes(builder.close())


def test_one_batch_is_read_in_all_threads() -> None:
    data = one_batch(2000)

    def work(_: int) -> list[bytes | None]:
        return [record.value for _ in range(10) for batch in records.decode(data) for record in batch]

    assert at_once(work) == [[b"%d" % index for index in range(2000)] * 10] * THREADS


@pytest.mark.parametrize("codec", list(Compression))
def test_one_fetched_batch_is_read_in_all_threads(codec: Compression) -> None:
    """There are small batches, and one that turns out to be large when it is decompressed, which each thread does for
    itself."""
    stored = [
        records.encode(
            [records.BatchRecord(0, 1, None, b"%d" % index * size) for index in range(100)],
            base_offset=base,
            compression=codec,
        )
        for base, size in ((0, 1), (100, 3000), (200, 1))
    ]
    batch = FetchedBatch(TopicPartition("flights", 0), 0, 300, list(records.decode(b"".join(stored))))
    expected = [(record.offset, record.value) for record in batch]
    assert len(expected) == 300

    def work(_: int) -> bool:
        return all([(record.offset, record.value) for record in batch] == expected for _ in range(20))

    assert at_once(work) == [True] * THREADS


def test_one_record_is_read_and_changed_in_all_threads() -> None:
    ((record,),) = records.decode(one_batch(1))

    def work(number: int) -> bool:
        for index in range(20_000):
            record.value = b"%d %d" % (number, index)
            if b" " not in record.value:
                return False
        return True

    assert at_once(work) == [True] * THREADS


def test_the_codec_compiles_a_version_that_all_threads_ask_for_first() -> None:
    def work(number: int) -> bool:
        message = MetadataRequest(topics=[MetadataRequestTopic(name=f"flights-{number}")])
        return all(MetadataRequest.decode(message.encode(version), version) == message for version in range(9, 13))

    for _ in range(20):
        MetadataRequest._encoders.clear()
        MetadataRequest._decoders.clear()
        assert at_once(work) == [True] * THREADS


def test_all_requests_are_encoded_and_decoded_in_all_threads() -> None:
    fetch = FetchRequest(topics=[FetchTopic(topic="flights")])

    def work(_: int) -> bool:
        for key in range(40):
            message = request(key)
            for version in range(message.versions.lowest, message.versions.highest + 1):
                if message.decode(message().encode(version), version) != message():
                    return False
        return FetchRequest.decode(fetch.encode(11), 11) == fetch

    assert at_once(work) == [True] * THREADS


def test_the_table_of_the_checksum_is_complete_for_every_thread() -> None:
    pure = forms("aiokproto.records.crc", "join")["pure"]
    whole = crc.crc32c(b"flights" * 1000)
    for _ in range(50):
        crc._squares.cache_clear()
        joined = at_once(lambda _: pure(crc.crc32c(b"flights" * 400), crc.crc32c(b"flights" * 600), 4200))
        assert joined == [whole] * THREADS


def test_the_library_of_the_checksum_is_loaded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    load, loaded = crc._load, []

    def loading() -> crc.Compute:
        loaded.append(threading.get_ident())
        return load()

    monkeypatch.setattr(crc, "_compute", None)
    monkeypatch.setattr(crc, "_load", loading)
    assert at_once(lambda _: crc.crc32c(b"123456789")) == [0xE3069283] * THREADS
    assert len(loaded) == 1


@pytest.mark.parametrize("form", ["pure", "compiled"])
def test_a_consumers_iterator_refuses_other_threads_at_every_step(form: str) -> None:
    """Other threads get no record, and the right thread gets all of them."""
    if form not in forms("aiokproto.consumer.delivery", "RecordIterator"):
        pytest.skip(not_compiled.kwargs["reason"])
    count = 20_000
    state = forms("aiokproto.consumer.delivery", "DeliveryState")[form]()
    state.open = list(range(count))
    ended = threading.Event()

    class NoReader:
        async def open(self) -> None:
            if ended.is_set():
                raise StopAsyncIteration
            raise ConfigurationError("another event loop")

    async def work(number: int) -> list[object]:
        iterator = forms("aiokproto.consumer.delivery", "RecordIterator")[form](state, NoReader())
        found: list[object] = []
        if number:
            refused = 0
            while not ended.is_set() or not refused:
                with pytest.raises((ConfigurationError, StopAsyncIteration)):
                    found.append(await iterator.__anext__())
                refused += 1
            return found
        state.thread = threading.get_ident()
        while state.open:
            found.append(await iterator.__anext__())
        ended.set()
        return found

    found = in_loops(work)
    assert found == [list(range(count - 1, -1, -1)), [], [], []]


def test_records_that_are_open_are_not_delivered_to_another_thread(kafka: ThreadedCluster) -> None:
    async def write() -> None:
        async with Producer(bootstrap_servers=kafka.bootstrap_servers) as producer:
            await producer.send_many("flights", [b"0", b"1", b"2"])

    asyncio.run(write())

    async def read() -> list[bytes | None]:
        async with Consumer(
            "flights", bootstrap_servers=kafka.bootstrap_servers, auto_offset_reset="earliest"
        ) as consumer:
            iterator = aiter(consumer)
            found = [(await anext(iterator)).value]

            async def intrude() -> None:
                for _ in range(3):
                    with pytest.raises(ConfigurationError, match="event loop"):
                        await anext(iterator)

            await asyncio.to_thread(lambda: asyncio.run(intrude()))
            return [*found, (await anext(iterator)).value, (await anext(iterator)).value]

    assert asyncio.run(read()) == [b"0", b"1", b"2"]


def test_positions_of_consumers_in_all_threads_are_distinguished() -> None:
    """A response for one version of a cursor is never taken for another version's."""

    def seek(number: int) -> list[object]:
        cursor = Cursor(TopicPartition("t", number), 0)
        versions = [cursor.version]
        for offset in range(5000):
            cursor.set_position(offset)
            versions.append(cursor.version)
        return versions

    found = [version for versions in at_once(seek) for version in versions]
    assert len(set(found)) == THREADS * 5001


def test_arrays_that_another_thread_changes_end_in_no_wrong_place() -> None:
    """Measured numbers may have changed when they are read again: headers, binary columns and their bounds."""
    numpy = pytest.importorskip("numpy")
    from aiokproto.records.columns import BytesColumn, binary_array
    from aiokproto.records.rows import encode_lists

    rows, each = 2000, 3
    start = numpy.arange(rows, dtype=numpy.int64) * each
    end = start + 1
    item = numpy.arange(rows * each, dtype=numpy.int64)
    column = BytesColumn(bytes(rows * each + 1), item, item + 1, numpy.ones(rows * each, numpy.bool_))
    done = threading.Event()

    def change() -> None:
        while not done.is_set():
            end[:] = start + each
            end[:] = start

    def write() -> None:
        for _ in range(100):
            with suppress(ValueError, IndexError):
                assert len(encode_lists(start, end, column, column)) == rows
                assert len(binary_array(column.data, start, end, column.valid[:rows])) == rows

    def work(number: int) -> None:
        if number == 0:
            change()
            return
        try:
            write()
        finally:
            done.set()

    at_once(work)
