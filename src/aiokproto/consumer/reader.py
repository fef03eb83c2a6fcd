"""The reader: what ``async for``, ``poll`` and ``batches`` do when no record is open.

It waits for buffered records, takes the partition whose turn it is, and opens its next batch: in the event loop if that
is quick, else in a thread, while other partitions deliver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.awaited import Awaited
from aiokproto.consumer.batch import DamagedBatch, FetchedBatch
from aiokproto.consumer.buffer import RecordBuffer
from aiokproto.consumer.cursor import Cursor
from aiokproto.consumer.damage import locate, stand_in, undamaged
from aiokproto.consumer.undecodable import Undecodable
from aiokproto.errors import (
    BrokerError,
    CorruptBatchError,
    CorruptRecordError,
    KafkaError,
    UnsupportedCompressionError,
)
from aiokproto.fetched.chunk import OpenRecords, expected_size, open_batch, read_or_open, record_count
from aiokproto.fetched.decompressed import decompress_ahead, is_decompressible
from aiokproto.fetched.time_slice import TimeSlice
from aiokproto.interceptors import NO_INTERCEPTORS, Interceptors
from aiokproto.records import RecordBatch
from aiokproto.records.slices import QUICK_BYTES
from aiokproto.runtime.timeouts import wait_until
from aiokproto.types import Record, TopicPartition, UndecodableRecord

CHECKED_ON_LOOP = 2 * 1024 * 1024
"""Bytes whose checksums are verified in the event loop, in some tenths of a millisecond."""

T = TypeVar("T")

RunInThread = Callable[[Callable[[], Any]], "asyncio.Future[Any]"]
"""Runs a function in one of the client's threads."""


class Reader:
    """Opens batches, for one caller at a time.

    Cancelling a call changes nothing: the next one continues with the batch that was being opened.

    Attributes:
        requests: How often records were requested.
        waiting: Whether a call waits for records.
        owner: The only caller that may read; None if any may.
        awaited: What the delivery of a record waits for now; None for nothing.
    """

    def __init__(
        self,
        assignment: Assignment,
        check_crcs: bool,
        check: Callable[[], None],
        run_in_thread: RunInThread,
        undecodable: Undecodable,
        interceptors: Interceptors = NO_INTERCEPTORS,
        check_free: Callable[[], None] = lambda: None,
    ) -> None:
        """``check`` raises if the consumer cannot deliver records, ``check_free`` if they are delivered to an owner."""
        # None without, so that the test is that of a batch and not a call.
        self._interceptors = interceptors if interceptors.receiving else None
        self.requests = 0
        self.waiting = False
        self.owner: object = None
        self.awaited: Awaited | None = None
        self._assignment = assignment
        self._check_crcs = check_crcs
        self._check = check
        self._check_free = check_free
        self._run_in_thread = run_in_thread
        self._undecodable = undecodable
        # For the one call that waits; set by whatever may give it records or an error.
        self._arrived = asyncio.Event()
        # For a revocation that waits for the application; set by each request for records.
        self._processed = asyncio.Event()
        self._slice = TimeSlice()

    def wake(self) -> None:
        """Let a waiting call check again: for records, or for a reason to raise."""
        self._arrived.set()

    async def wait_processed(self, deadline: float) -> None:
        """Wait until the application requests the next record, so that the current one is processed; at most until that
        loop time."""
        self._processed.clear()
        await wait_until(self._processed, deadline)

    def give_up_waiting(self) -> None:
        """Let :meth:`wait_processed` return now."""
        self._processed.set()

    @contextmanager
    def awaiting(self, what: str, record: Callable[[], Record]) -> Iterator[None]:
        """Set :attr:`awaited` while the body runs."""
        self.awaited = Awaited(what, record, asyncio.get_running_loop().time())
        try:
            yield
        finally:
            self.awaited = None

    async def open(self, deadline: float | None = None, *, by: object = None) -> bool:
        """Open records into ``assignment.open``. Return False if there are none by that loop time. ``by`` is the caller
        if it is the owner.

        Raises:
            KafkaError: A partition, or the consumer, has failed.
        """
        # Outside of the try: a second caller is refused, and must not clear the first one's `waiting`.
        self._begin(by)
        try:
            # Here, where nothing is taken yet: `async for` over buffered records would otherwise never let other tasks
            # run.
            await self._slice.pause()
            while (cursor := await self._next(deadline)) is not None:
                # Records may be open from before, of a partition whose delivery was interrupted.
                if cursor.buffer.records or self._open(cursor):
                    if await self._settled(cursor):
                        continue
                    self._assignment.serve(cursor)
                    return True
                # A batch can have many slices before the position, or that interceptors leave out.
                await self._slice.pause()
            return False
        finally:
            self.waiting = False

    async def open_among(self, remaining: Callable[[], Mapping[TopicPartition, int]], deadline: float) -> bool:
        """As :meth:`open`, but only of the partitions that ``remaining`` returns, each with the offset to stop at.

        Returns:
            Whether the first open record is one of them; False at the deadline, or once none remains.
        """
        self._begin()
        try:
            await self._slice.pause()
            while left := remaining():
                self._check()
                self._arrived.clear()
                cursor = self._assignment.next_cursor(left)
                if cursor is None:
                    if not await self._wait(deadline):
                        return False
                elif cursor.error is not None:
                    raise self._assignment.report(cursor).with_traceback(None)
                # Opening can move the position behind the end.
                elif (cursor.buffer.records or self._open(cursor)) and cursor.buffer.position < left[cursor.partition]:
                    if await self._settled(cursor):
                        continue
                    self._assignment.serve(cursor)
                    return True
            return False
        finally:
            self.waiting = False

    async def collect(self, least: int, deadline: float) -> None:
        """Open records of all partitions until there are ``least``, but deliver none: a cancelled call leaves them open
        to the next one, and a seek, a pause or a revocation drops or keeps them as anything buffered.

        Returns earlier at that loop time, and before an error or a damaged batch that is not skipped: what is open is
        delivered first.
        """
        self._begin()
        try:
            await self._slice.pause()
            while True:
                self._check()
                self._arrived.clear()
                ready = self._assignment.ready()
                if sum(len(cursor.buffer.records) for cursor in ready) >= least:
                    return
                if not all(map(self._continues, ready)):
                    return
                opening = next((cursor for cursor in ready if _has_more(cursor.buffer)), None)
                if opening is None:
                    if not await self._wait(deadline):
                        return
                elif not self._open_behind(opening):
                    return
                else:
                    await self._slice.pause()
        finally:
            self.waiting = False

    def collected(self) -> list[Cursor]:
        """Return the partitions with open records to deliver, in turn."""
        return [
            cursor
            for cursor in self._assignment.ready()
            if cursor.error is None
            and cursor.buffer.records
            # A dead letter would be waited for.
            and not (self._undecodable.settles and cursor.buffer.stands_in)
        ]

    def _continues(self, cursor: Cursor) -> bool:
        """Return whether a partition has no error or damage to deliver after what is open of it."""
        buffer = cursor.buffer
        damaged = bool(buffer.records) and bool(buffer.chunks) and not buffer.chunks[0].batches
        return cursor.error is None and not buffer.stands_in and (not damaged or self._undecodable.skips)

    def _open_behind(self, cursor: Cursor) -> bool:
        """Open the next batch of a partition, behind what is open of it. Return False if it is damaged, and not
        skipped."""
        buffer = cursor.buffer
        if not buffer.records and not self._undecodable.skips:
            self._open(cursor)
        else:
            try:
                if (damage := buffer.chunks[0].damage) is not None and not buffer.chunks[0].batches:
                    raise damage
                self._read(cursor)
            except (CorruptRecordError, UnsupportedCompressionError) as error:
                # The next call finds the error again, and raises it once what is open is delivered.
                buffer.reading = None
                if not self._skipped(cursor, error):
                    return False
        self._assignment.opened(cursor)
        return True

    def _skipped(self, cursor: Cursor, error: KafkaError) -> bool:
        """Skip a damaged batch behind what is open, if that is the policy."""
        if not self._undecodable.skips or not isinstance(error, CorruptRecordError):
            return False
        buffer = cursor.buffer
        located = locate(cursor.partition, buffer, cursor.fetch.high_watermark, error)
        if located is None:
            return False
        if located == "refetch":
            buffer.drop()
            self._assignment.refetch(cursor, buffer.end)
            return True
        buffer.leave_out(located.next_offset)
        if not buffer.chunks:
            self._assignment.refetch(cursor, located.next_offset)
        self._undecodable.settled(located)
        return True

    def open_at_once(self) -> bool:
        """As :meth:`open`, but neither wait nor work long. Return False also if other tasks should run first."""
        if self._slice.is_over():
            return False
        cursor = self._assignment.next_cursor()
        # An error is left to the next call: this one has records to return.
        while cursor is not None and cursor.error is None:
            buffer = cursor.buffer
            if not buffer.records:
                # Damage is for open().
                if not buffer.chunks[0].batches:
                    return False
                try:
                    # Work for a thread is for open(), too.
                    if self._read_now(cursor) is None:
                        return False
                except (CorruptRecordError, UnsupportedCompressionError):
                    # Deliver what was opened before it; the next call finds the error again, and raises it.
                    buffer.reading = None
                    return False
            if buffer.records:
                # A dead letter would be waited for.
                if self._undecodable.settles and type(buffer.records[-1]) is UndecodableRecord:
                    return False
                self._assignment.serve(cursor)
                return True
            cursor = self._assignment.next_cursor()
        return False

    async def batch(self, deadline: float | None = None, *, decompress: bool = True) -> FetchedBatch | None:
        """Deliver the next batch, or None if there is none by that loop time. Raises as :meth:`open`.

        With ``decompress``, large compressed batches are decompressed in a thread first.
        """
        self._begin()
        try:
            await self._slice.pause()
            while (cursor := await self._next(deadline)) is not None:
                buffer = cursor.buffer
                batches = buffer.begun
                if buffer.chunks:
                    batches += buffer.chunks[0].batches
                if buffer.stands_in:
                    if await self._settled(cursor):
                        continue
                    return self._deliver_damaged(cursor)
                if not batches:
                    self._damaged(cursor, buffer.chunks[0].damage)
                    continue
                try:
                    prepared = self._prepared(cursor, batches, decompress)
                except CorruptRecordError as error:
                    self._damaged(cursor, error)
                    continue
                if prepared is None:
                    continue
                # Before take(), which moves it.
                base = cursor.position
                assert base is not None
                buffer.take(len(prepared))
                self._assignment.delivered_at_once(cursor, record_count(prepared, base))
                result = FetchedBatch(cursor.partition, base, buffer.end, prepared, cursor.ownership)
                self._assignment.current = result
                return result
            return None
        finally:
            self.waiting = False

    def requested(self, by: object = None) -> None:
        """The application requests a record, and the last one is processed; raises as :meth:`open`."""
        # First: a consumer that cannot deliver must not count the current record as processed.
        self._check()
        # guard: while a session or run() reads, other readers are rejected
        if self.owner is not by:
            # Whoever owns the reader is the situation that the gate refuses.
            self._check_free()
        if self.waiting:
            raise RuntimeError("another task is waiting for records of this consumer; only one can at a time")
        self.requests += 1
        # Requesting the next record is what says that the last one is processed.
        self._assignment.mark_processed()
        self._processed.set()

    def _begin(self, by: object = None) -> None:
        self.requested(by)
        self.waiting = True

    async def _next(self, deadline: float | None) -> Cursor | None:
        """Wait for the partition to deliver next; None after the deadline. Raises the partition's error, if it has
        one."""
        while True:
            self._check()
            # Before the look: what arrives after it wakes.
            self._arrived.clear()
            cursor = self._assignment.next_cursor()
            if cursor is None:
                if not await self._wait(deadline):
                    return None
            elif cursor.error is not None:
                raise self._assignment.report(cursor).with_traceback(None)
            else:
                return cursor

    async def _wait(self, deadline: float | None) -> bool:
        loop = asyncio.get_running_loop()
        since = loop.time()
        try:
            return await self._wait_until(deadline, loop)
        finally:
            self._assignment.observer.waited += loop.time() - since

    async def _wait_until(self, deadline: float | None, loop: asyncio.AbstractEventLoop) -> bool:
        if deadline is None:
            await self._arrived.wait()
            return True
        if loop.time() >= deadline:
            # `while True: await poll(0)` would otherwise never let the event loop read from sockets.
            await asyncio.sleep(0)
            return False
        await wait_until(self._arrived, deadline)
        return True

    def _open(self, cursor: Cursor) -> bool:
        """Open the next batch of a partition. Return whether there are records now."""
        chunk = cursor.buffer.chunks[0]
        if not chunk.batches:
            return self._damaged(cursor, chunk.damage)
        try:
            return self._read(cursor)
        except CorruptRecordError as error:
            return self._damaged(cursor, error)
        except UnsupportedCompressionError as error:
            # Not about the batch: this installation lacks a library, for all batches of that codec.
            cursor.buffer.reading = None
            self._fail(cursor, error)
            return False

    def _read(self, cursor: Cursor) -> bool:
        """Read the next slice of a partition's first batch. Return whether it has records."""
        found = self._read_now(cursor)
        if found is None:
            reading = cursor.buffer.reading
            assert reading is not None
            records = self._in_thread(cursor, reading, reading.read)
            return records is not None and self._opened(cursor, records, reading)
        return found

    def _read_now(self, cursor: Cursor) -> bool | None:
        """Read the next records of a partition. Return whether there are any; None if reading is for a thread."""
        buffer = cursor.buffer
        if buffer.reading is None:
            batch = buffer.chunks[0].batches[0]
            found = read_or_open(batch, cursor.partition, buffer.end, self._check_crcs, cursor.ownership)
            if isinstance(found, list):
                return self._opened(cursor, found)
            buffer.reading = found
        reading = buffer.reading
        if _is_in_thread(buffer, reading) or not reading.is_quick():
            return None
        return self._opened(cursor, reading.read(), reading)

    def _read_again(self, cursor: Cursor) -> None:
        buffer = cursor.buffer
        buffer.reading = open_batch(
            buffer.chunks[0].batches[0], cursor.partition, buffer.end, self._check_crcs, cursor.ownership
        )

    def _opened(self, cursor: Cursor, records: list[Record], reading: OpenRecords | None = None) -> bool:
        """Store records of the next batch. Return whether there are any."""
        if self._interceptors is not None:
            records = self._interceptors.on_records(records)
            for record in records:
                # What an interceptor has made belongs to this delivery as well.
                if record._ownership is None:
                    record._ownership = cursor.ownership
        records.reverse()
        cursor.buffer.opened(records, reading)
        return bool(records)

    def _prepared(self, cursor: Cursor, batches: list[RecordBatch], decompress: bool) -> list[RecordBatch] | None:
        """Verify checksums, and decompress large batches if wanted. Return None while a thread does it.

        Returns the batches before the first damaged one; raises if that is the first of all.
        """
        ahead = decompress and any(is_decompressible(batch) and expected_size(batch) > QUICK_BYTES for batch in batches)

        def prepare() -> list[RecordBatch]:
            good = undamaged(batches) if self._check_crcs else batches
            return decompress_ahead(good) if ahead else good

        if ahead or (self._check_crcs and sum(batch.size_in_bytes for batch in batches) > CHECKED_ON_LOOP):
            return self._in_thread(cursor, (decompress, *map(id, batches)), prepare)
        return prepare()

    def _in_thread(self, cursor: Cursor, what: object, work: Callable[[], list[T]]) -> list[T] | None:
        """Return the result of the work, None while a thread is at it: other partitions deliver meanwhile.

        The work starts once: a call that is cancelled leaves the result to the next one. ``what`` identifies it.
        """
        buffer = cursor.buffer
        # Another piece of work: the buffer was restarted, or batches() reads what `async for` had begun.
        if buffer.opening is None or buffer.opening[0] != what:
            if buffer.reading is not None and buffer.reading is not what:
                # Another thread may still be reading it.
                self._read_again(cursor)
            future = self._run_in_thread(work)
            buffer.opening = (what, future)
            future.add_done_callback(partial(self._opened_in_thread, cursor))
        future = buffer.opening[1]
        if not future.done():
            # Queued again by _opened_in_thread.
            self._assignment.yield_turn(cursor)
            return None
        buffer.opening = None
        result: list[T] = future.result()
        return result

    def _opened_in_thread(self, cursor: Cursor, future: asyncio.Future[Any]) -> None:
        # Retrieve the error: after a seek no call asks for it, and asyncio would log it as never retrieved.
        # Cancelled: the client is closed.
        if future.cancelled() or (future.exception() is not None and cursor.buffer.opening is None):
            return
        self._assignment.arrived(cursor)

    def _damaged(self, cursor: Cursor, damage: KafkaError | None) -> bool:
        """Put a record in the place of a damaged batch, or stop the partition. Return whether there is a record."""
        error = damage or CorruptRecordError("no batch")
        buffer = cursor.buffer
        located = None
        if isinstance(error, CorruptRecordError):
            located = locate(cursor.partition, buffer, cursor.fetch.high_watermark, error)
        if located == "refetch":
            buffer.drop()
            self._assignment.refetch(cursor, buffer.end)
            return False
        if not self._undecodable.settles:
            # Settled ones are counted when they are.
            self._undecodable.count += 1
        if located is None or self._undecodable.policy == "raise":
            self._fail(cursor, located or error)
            return False
        buffer.replaced(stand_in(located, cursor.ownership), located.next_offset)
        if not buffer.chunks:
            # The damaged header said otherwise, or what follows could not be cut.
            self._assignment.refetch(cursor, located.next_offset)
        return True

    async def _settled(self, cursor: Cursor) -> bool:
        """Skip a damaged batch, or write its dead letter, as the policy says. Return False if it says neither.

        Raises:
            KafkaError: The dead letter could not be written; the next call tries again.
        """
        records = cursor.buffer.records
        record = records[-1]
        if type(record) is not UndecodableRecord:
            return False
        assert record.error is not None
        if not self._undecodable.settles:
            return False
        with self.awaiting("its dead letter to be acknowledged", lambda: record):
            await self._undecodable.settle(record, record.error)
        # A seek may have replaced it meanwhile.
        if cursor.buffer.records is records:
            records.clear()
            self._assignment.delivered_at_once(cursor, 1)
            self._undecodable.settled(record.error)
        return True

    def _deliver_damaged(self, cursor: Cursor) -> FetchedBatch:
        """Deliver the record that stands for a damaged batch, as a batch."""
        buffer = cursor.buffer
        record = buffer.records[-1]
        assert isinstance(record, UndecodableRecord)
        buffer.records = []
        self._assignment.delivered_at_once(cursor, 1)
        result = DamagedBatch(cursor.partition, record.offset, buffer.end, record)
        self._assignment.current = result
        return result

    def _fail(self, cursor: Cursor, error: KafkaError) -> None:
        # Others name their partition already.
        if not isinstance(error, BrokerError | CorruptBatchError):
            error = type(error)(f"{cursor.partition} at offset {cursor.buffer.end}: {error}")
        self._assignment.fail(cursor, error)


def _has_more(buffer: RecordBuffer) -> bool:
    """Return whether there is a batch to open now, or one that a thread has opened."""
    return bool(buffer.chunks) and (buffer.opening is None or buffer.opening[1].done())


def _is_in_thread(buffer: RecordBuffer, reading: OpenRecords) -> bool:
    return buffer.opening is not None and buffer.opening[0] is reading


class BatchIterator:
    """The endless iterator of :meth:`Consumer.batches`. Not a generator: a cancellation would end that."""

    def __init__(self, reader: Reader, decompress: bool) -> None:
        self._reader = reader
        self._decompress = decompress

    def __aiter__(self) -> BatchIterator:
        return self

    async def __anext__(self) -> FetchedBatch:
        batch = await self._reader.batch(decompress=self._decompress)
        assert batch is not None
        return batch
