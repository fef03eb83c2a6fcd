"""Slow work runs in threads, fast work in the event loop; and nothing keeps the memory of records that were read."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.batch import FetchedBatch
from aiokproto.consumer.reader import CHECKED_ON_LOOP, Reader
from aiokproto.consumer.start_lookup import COMMITTED
from aiokproto.consumer.undecodable import Undecodable
from aiokproto.errors import CorruptRecordError
from aiokproto.fetched.chunk import BufferedBytes, chunks
from aiokproto.fetched.decompressed import DecompressedBatch
from aiokproto.records import BatchRecord, encode
from aiokproto.records.slices import QUICK_BYTES
from aiokproto.types import TopicPartition
from tests.consumer.parts import EngineStub
from tests.decompressions import count_decompressions
from tests.timeouts import LONG_TIMEOUT

AT = TopicPartition("t", 0)
NOISE = random.Random(1).randbytes(4 * CHECKED_ON_LOOP)


class Counting(ThreadPoolExecutor):
    def __init__(self) -> None:
        super().__init__(1)
        self.submitted = 0
        self.may_run = threading.Event()
        self.may_run.set()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        self.submitted += 1
        return super().submit(self.run, fn, *args, **kwargs)

    def run(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        assert self.may_run.wait(LONG_TIMEOUT)
        return fn(*args, **kwargs)


class Desk(EngineStub):
    """A reader of one partition, and the threads it makes use of."""

    def __init__(self, *, check_crcs: bool = True) -> None:
        super().__init__()
        engine: Any = self
        self.assignment = Assignment(engine)
        self.assignment.add([AT], COMMITTED)
        self.cursor = self.assignment.get(AT)
        self.cursor.set_position(0)
        self.threads = Counting()
        self.reader = Reader(engine, self.assignment, Undecodable("raise", None), check_crcs=check_crcs)

    def records_arrived(self) -> None:
        self.reader.wake()

    def run_in_thread(self, work: Callable[[], Any]) -> asyncio.Future[Any]:
        return asyncio.get_running_loop().run_in_executor(self.threads, work)

    def feed(self, data: bytes | bytearray) -> None:
        assert self.cursor.fetch.offset is not None
        for chunk in chunks(AT, self.cursor.fetch.offset, memoryview(data), []):
            self.cursor.received(chunk, BufferedBytes())
            self.assignment.arrived(self.cursor)

    async def batch(self, *, decompress: bool = True) -> FetchedBatch:
        batch = await self.reader.batch(decompress=decompress)
        assert batch is not None
        return batch


@asynccontextmanager
async def desk(**options: bool) -> AsyncIterator[Desk]:
    made = Desk(**options)
    with made.threads:
        yield made


def stored(size: int, codec: str = "none", base: int = 0) -> bytes:
    return encode([BatchRecord(base, 1, None, NOISE[:size])], compression=codec, base_offset=base)


@pytest.mark.parametrize(
    ("size", "codec", "leaves"),
    [
        (QUICK_BYTES // 2, "none", False),
        (QUICK_BYTES, "none", True),
        (QUICK_BYTES // 8, "gzip", False),
        (QUICK_BYTES // 4, "gzip", True),
    ],
)
async def test_a_large_batch_is_opened_in_a_thread(size: int, codec: str, leaves: bool) -> None:
    async with desk() as at:
        at.feed(stored(size, codec))
        assert at.reader.open_at_once() is not leaves
        assert await at.reader.open()
        assert at.threads.submitted == leaves
        assert [record.value for record in at.assignment.take(9)] == [NOISE[:size]]


@pytest.mark.parametrize(
    ("size", "codec", "check_crcs", "leaves", "decompressed"),
    [
        (QUICK_BYTES, "none", True, False, False),
        (CHECKED_ON_LOOP, "none", True, True, False),
        (CHECKED_ON_LOOP, "none", False, False, False),
        (QUICK_BYTES // 8, "gzip", True, False, False),
        (QUICK_BYTES // 4, "gzip", True, True, True),
        (QUICK_BYTES // 4, "gzip", False, True, True),
    ],
)
async def test_a_large_batch_is_returned_decompressed(
    size: int, codec: str, check_crcs: bool, leaves: bool, decompressed: bool
) -> None:
    async with desk(check_crcs=check_crcs) as at:
        at.feed(stored(size, codec))
        batch = await at.batch()
        assert at.threads.submitted == leaves
        assert [isinstance(one, DecompressedBatch) for one in batch.record_batches] == [decompressed]
        assert [record.value for record in batch] == [NOISE[:size]]


@pytest.mark.parametrize("magic", [0, 1])
async def test_a_message_set_is_returned_without_decompressing_it(monkeypatch: pytest.MonkeyPatch, magic: int) -> None:
    records = [BatchRecord(0, 1, None, b"%d" % each) for each in range(5)]
    calls = count_decompressions(monkeypatch)
    async with desk() as at:
        delivered: list[int] = []
        monkeypatch.setattr(at.assignment.observer, "delivered", lambda _, count, __: delivered.append(count))
        for base in (0, 5):
            at.feed(encode(records, magic=magic, compression="gzip", base_offset=base))
            at.cursor.fetch.offset = base + 5
        found = [await at.batch(), await at.batch()]
        assert (calls, delivered, at.threads.submitted) == ([], [5, 5], 0)
        assert [record.offset for batch in found for record in batch] == list(range(10))


@pytest.mark.parametrize(("size", "leaves"), [(QUICK_BYTES, False), (CHECKED_ON_LOOP, True)])
async def test_a_batch_that_is_not_to_be_decompressed_is_returned_unchanged(
    monkeypatch: pytest.MonkeyPatch, size: int, leaves: bool
) -> None:
    data = stored(size, "gzip")
    calls = count_decompressions(monkeypatch)
    async with desk() as at:
        at.feed(data)
        batch = await at.batch(decompress=False)
        assert [one.raw for one in batch.record_batches] == [data]
        assert at.threads.submitted == leaves, "for the checksum, if at all"
        assert calls == []
        assert [record.value for record in batch] == [NOISE[:size]]
        assert len(calls) == 1


async def test_a_wrong_checksum_of_a_large_batch_is_raised_after_the_records_before_it() -> None:
    async with desk() as at:
        bad = bytearray(stored(QUICK_BYTES, "gzip", 1))
        bad[-1] ^= 1
        at.feed(stored(10) + bytes(bad))
        assert [record.offset for record in await at.batch()] == [0]
        with pytest.raises(CorruptRecordError, match=r"t-0 at offset 1: .*checksum"):
            await at.batch()


@pytest.mark.parametrize("how", ["open", "batch"])
async def test_a_seek_while_a_thread_decompresses_drops_its_batch(how: str) -> None:
    async with desk() as at:
        at.threads.may_run.clear()
        at.feed(stored(QUICK_BYTES, "gzip"))
        opening = asyncio.ensure_future(at.reader.open() if how == "open" else at.reader.batch())
        while not at.threads.submitted:
            await asyncio.sleep(0)
        at.assignment.seek(AT, 0)
        at.feed(stored(10, base=0))
        at.reader.wake()
        at.threads.may_run.set()
        found = await opening
        values = at.assignment.take(9) if found is True else list(found or ())
        assert [record.value for record in values] == [NOISE[:10]]


async def test_a_batch_opened_by_a_thread_is_not_taken_for_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    # Simulate that each batch is at the address of the one before, and so has its id.
    monkeypatch.setattr("aiokproto.consumer.reader.id", lambda _: 1, raising=False)
    async with desk() as at:
        at.feed(stored(QUICK_BYTES, "gzip"))
        at.threads.may_run.clear()
        opening = asyncio.ensure_future(at.reader.open())
        while not at.threads.submitted:
            await asyncio.sleep(0)
        opening.cancel()
        at.threads.may_run.set()
        await asyncio.wait((opening,))
        assert [record.offset for record in await at.batch(decompress=False)] == [0]
        at.feed(stored(QUICK_BYTES, "gzip", base=1))
        assert await at.reader.open()
        assert [record.offset for record in at.assignment.take(9)] == [1]


async def test_a_partition_that_was_read_keeps_no_view_of_its_fetch_response() -> None:
    """Each view keeps the whole response, which may be megabytes, and a partition may be assigned for days."""
    async with desk() as at:
        data = bytearray(stored(100))
        at.feed(data)
        assert await at.reader.open()
        at.assignment.take(9)
        assert not await at.reader.open(deadline=0)
        gc.collect()
        # It can be resized, because no view of it is left.
        data.clear()
