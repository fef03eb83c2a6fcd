"""The reader, which ``async for``, ``poll`` and ``batches`` call when no records are open.

It waits for buffered records, takes the partition whose turn it is, and opens its next batch. If that's quick, it does
so in the event loop, else in a thread, while other partitions deliver.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from aiokproto.application.gates import READ
from aiokproto.consumer.assignment import Assignment
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

if TYPE_CHECKING:
    from aiokproto.consumer.engine import Engine

CHECKED_ON_LOOP = 2 * 1024 * 1024
"""Maximum number of bytes to verify the checksum of in the event loop. It takes a few tenths of a millisecond."""

T = TypeVar("T")


class Awaited(NamedTuple):
    """What a fetched record is waiting for before it's delivered: the application's deserializer, or a dead letter.

    Attributes:
        what: The end of the sentence "the record waits for …".
        record: Returns the record.
        since: The loop time when the wait started.
    """

    what: str
    record: Callable[[], Record]
    since: float

    def __str__(self) -> str:
        record = self.record()
        return f"{record.topic}-{record.partition}: the record at offset {record.offset} waits for {self.what}"


class Reader:
    """Opens batches, for one caller at a time.

    Cancelling a call has no effect on the records: the next call continues with the batch that was being opened.

    Attributes:
        requests: The number of requests for records.
        waiting: Whether a call is waiting for records.
        owner: The only caller that may read; None if any caller may.
        awaited: What the delivery of a record is waiting for, if anything.
    """

    def __init__(
        self,
        engine: Engine,
        assignment: Assignment,
        undecodable: Undecodable,
        *,
        check_crcs: bool = True,
        interceptors: Interceptors = NO_INTERCEPTORS,
    ) -> None:
        # It's None if no interceptor wants records, so the check doesn't need a call.
        self._interceptors = interceptors if interceptors.receiving else None
        self.requests = 0
        self.waiting = False
        self.owner: object = None
        self.awaited: Awaited | None = None
        self._engine = engine
        self._assignment = assignment
        self._check_crcs = check_crcs
        self._undecodable = undecodable
        # Wakes the call that is waiting for records. Every event that may provide records or an error sets it.
        self._arrived = asyncio.Event()
        # Wakes a revocation that is waiting for the application. Each request for records sets it.
        self._processed = asyncio.Event()
        self._slice = TimeSlice()

    def wake(self) -> None:
        """Make a waiting call check again for records, and for errors to raise."""
        self._arrived.set()

    async def wait_processed(self, deadline: float) -> None:
        """Wait until the application requests the next record, which means that the current one is processed, or until
        ``deadline`` (loop time)."""
        self._processed.clear()
        await wait_until(self._processed, deadline)

    def give_up_waiting(self) -> None:
        """Make :meth:`wait_processed` return now."""
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
        """Open records into ``assignment.open``. Return False if there are none by ``deadline`` (loop time). The
        reader's owner passes itself as ``by``.

        Raises:
            KafkaError: A partition, or the consumer, has failed.
        """
        # Keep this outside the try: a second caller is rejected, and must not clear the first caller's `waiting`.
        self._start_waiting(by)
        try:
            # Pause here, before any record is taken. Otherwise, `async for` over buffered records would never let other
            # tasks run.
            await self._slice.pause()
            while (cursor := await self._next(deadline)) is not None:
                # Records may already be open if the delivery of their partition was interrupted.
                if cursor.buffer.records or self._open(cursor):
                    if await self._removed(cursor):
                        continue
                    self._assignment.serve(cursor)
                    return True
                # A batch can contain many slices that are before the position or that interceptors drop.
                await self._slice.pause()
            return False
        finally:
            self.waiting = False

    async def open_among(self, remaining: Callable[[], Mapping[TopicPartition, int]], deadline: float) -> bool:
        """Like :meth:`open`, but only for the partitions that ``remaining`` returns, each with the offset to stop at.

        Returns:
            Whether records of these partitions are open; False after the deadline, or once no partition remains.
        """
        self._start_waiting()
        try:
            await self._slice.pause()
            while left := remaining():
                self._engine.check()
                self._arrived.clear()
                cursor = self._assignment.next_cursor(left)
                if cursor is None:
                    if not await self._wait(deadline):
                        return False
                elif cursor.error is not None:
                    raise self._assignment.report(cursor).with_traceback(None)
                # Check the position after opening, which can move it past the end.
                elif (cursor.buffer.records or self._open(cursor)) and cursor.buffer.position < left[cursor.partition]:
                    if await self._removed(cursor):
                        continue
                    self._assignment.serve(cursor)
                    return True
            return False
        finally:
            self.waiting = False

    async def collect(self, least: int, deadline: float) -> None:
        """Open records of all partitions until there are ``least``, but don't deliver them. If cancelled, they stay
        open for the next call. A seek, a pause or a revocation drops or keeps them like other buffered records.

        It returns early at ``deadline`` (loop time), and before an error or a damaged batch that isn't skipped: the
        open records are delivered first.
        """
        self._start_waiting()
        try:
            await self._slice.pause()
            while True:
                self._engine.check()
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
        """Return the partitions with open records to deliver, in the order of their turns."""
        return [
            cursor
            for cursor in self._assignment.ready()
            if cursor.error is None
            and cursor.buffer.records
            # Leave it out: its dead letter would have to be awaited.
            and not (self._undecodable.removes and cursor.buffer.stands_in)
        ]

    def _continues(self, cursor: Cursor) -> bool:
        """Return whether a partition has no error or damage to deliver after its open records."""
        buffer = cursor.buffer
        damaged = bool(buffer.records) and bool(buffer.chunks) and not buffer.chunks[0].batches
        return cursor.error is None and not buffer.stands_in and (not damaged or self._undecodable.skips)

    def _open_behind(self, cursor: Cursor) -> bool:
        """Open the batch after a partition's open records. Return False if it's damaged and not skipped."""
        buffer = cursor.buffer
        if not buffer.records and not self._undecodable.skips:
            self._open(cursor)
        else:
            try:
                if (damage := buffer.chunks[0].damage) is not None and not buffer.chunks[0].batches:
                    raise damage
                self._read(cursor)
            except (CorruptRecordError, UnsupportedCompressionError) as error:
                # The next call finds the error again. It's raised once the open records are delivered.
                buffer.reading = None
                if not self._skipped(cursor, error):
                    return False
        self._assignment.opened(cursor)
        return True

    def _skipped(self, cursor: Cursor, error: KafkaError) -> bool:
        """Skip a damaged batch after the open records, if that is the policy."""
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
        self._undecodable.removed(located)
        return True

    def open_at_once(self) -> bool:
        """Like :meth:`open`, but don't wait or do long work. It also returns False if other tasks should run first."""
        if self._slice.is_over():
            return False
        cursor = self._assignment.next_cursor()
        # Leave an error to the next call: this one has records to return.
        while cursor is not None and cursor.error is None:
            buffer = cursor.buffer
            if not buffer.records:
                # Leave damage to open().
                if not buffer.chunks[0].batches:
                    return False
                try:
                    # Leave work that needs a thread to open(), too.
                    if self._read_now(cursor) is None:
                        return False
                except (CorruptRecordError, UnsupportedCompressionError):
                    # Deliver the records before the error. The next call finds it again, and raises it.
                    buffer.reading = None
                    return False
            if buffer.records:
                # Leave it out: its dead letter would have to be awaited.
                if self._undecodable.removes and type(buffer.records[-1]) is UndecodableRecord:
                    return False
                self._assignment.serve(cursor)
                return True
            cursor = self._assignment.next_cursor()
        return False

    async def batch(self, deadline: float | None = None, *, decompress: bool = True) -> FetchedBatch | None:
        """Deliver the next batch, or None if there is none by ``deadline`` (loop time). Raises the same errors as
        :meth:`open`.

        With ``decompress``, large compressed batches are decompressed in a thread first.
        """
        self._start_waiting()
        try:
            await self._slice.pause()
            while (cursor := await self._next(deadline)) is not None:
                buffer = cursor.buffer
                batches = buffer.partly_delivered
                if buffer.chunks:
                    batches += buffer.chunks[0].batches
                if buffer.stands_in:
                    if await self._removed(cursor):
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
                # Read the position before take(), which moves it.
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
        """Note that the application has requested a record, so the last one is processed. Raises the same errors as
        :meth:`open`."""
        # Check this first: if the consumer cannot deliver, the current record must not count as processed.
        self._engine.check()
        # guard: while a session or run() reads, other readers are rejected
        if self.owner is not by:
            # The reader's owner is a session or run(), so the gate rejects other callers.
            self._engine.admit(READ)
        if self.waiting:
            raise RuntimeError("another task is waiting for records of this consumer; only one can at a time")
        self.requests += 1
        # Requesting the next record means that the last one is processed.
        self._assignment.mark_processed()
        self._processed.set()

    def _start_waiting(self, by: object = None) -> None:
        self.requested(by)
        self.waiting = True

    async def _next(self, deadline: float | None) -> Cursor | None:
        """Wait for the partition to deliver next; None after the deadline. If the partition has an error, raise it."""
        while True:
            self._engine.check()
            # Clear the event before looking. Records that arrive later then wake this call.
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
            # Without this, `while True: await poll(0)` would never let the event loop read from sockets.
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
            # The batch isn't at fault: this installation is missing the library for its codec.
            cursor.buffer.reading = None
            self._fail(cursor, error)
            return False

    def _read(self, cursor: Cursor) -> bool:
        """Read the next slice of a partition's first batch. Return whether it contains records."""
        found = self._read_now(cursor)
        if found is None:
            reading = cursor.buffer.reading
            assert reading is not None
            records = self._in_thread(cursor, reading, reading.read)
            return records is not None and self._opened(cursor, records, reading)
        return found

    def _read_now(self, cursor: Cursor) -> bool | None:
        """Read the next records of a partition. Return whether there are any; None if a thread has to read them."""
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
                # A record created by an interceptor belongs to this delivery, too.
                if record._ownership is None:
                    record._ownership = cursor.ownership
        records.reverse()
        cursor.buffer.opened(records, reading)
        return bool(records)

    def _prepared(self, cursor: Cursor, batches: list[RecordBatch], decompress: bool) -> list[RecordBatch] | None:
        """Verify checksums, and decompress large batches if ``decompress``. Return None while a thread is doing it.

        It returns the batches before the first damaged batch, and raises if the first batch is damaged.
        """
        ahead = decompress and any(is_decompressible(batch) and expected_size(batch) > QUICK_BYTES for batch in batches)

        def prepare() -> list[RecordBatch]:
            good = undamaged(batches) if self._check_crcs else batches
            return decompress_ahead(good) if ahead else good

        if ahead or (self._check_crcs and sum(batch.size_in_bytes for batch in batches) > CHECKED_ON_LOOP):
            return self._in_thread(cursor, (decompress, *map(id, batches)), prepare)
        return prepare()

    def _in_thread(self, cursor: Cursor, what: object, work: Callable[[], list[T]]) -> list[T] | None:
        """Return the result of the work, or None while a thread is doing it. Other partitions deliver in the meantime.

        The work is started only once: if a call is cancelled, the next call gets the result. ``what`` identifies the
        work.
        """
        buffer = cursor.buffer
        # It's different work: the buffer was restarted, or batches() is reading a batch that `async for` has started.
        if buffer.opening is None or buffer.opening[0] != what:
            if buffer.reading is not None and buffer.reading is not what:
                # Open the batch again: another thread may still be reading it.
                self._read_again(cursor)
            future = self._engine.cluster.run_in_thread(work)
            buffer.opening = (what, future)
            future.add_done_callback(partial(self._opened_in_thread, cursor))
        future = buffer.opening[1]
        if not future.done():
            # _opened_in_thread() queues the partition again.
            self._assignment.yield_turn(cursor)
            return None
        buffer.opening = None
        result: list[T] = future.result()
        return result

    def _opened_in_thread(self, cursor: Cursor, future: asyncio.Future[Any]) -> None:
        # Retrieve the error: after a seek no call does, and asyncio would log that it was never retrieved. The future
        # is cancelled if the client is closed.
        if future.cancelled() or (future.exception() is not None and cursor.buffer.opening is None):
            return
        self._assignment.arrived(cursor)

    def _damaged(self, cursor: Cursor, damage: KafkaError | None) -> bool:
        """Replace a damaged batch with a record, or stop the partition. Return whether there is a record."""
        error = damage or CorruptRecordError("no batch")
        buffer = cursor.buffer
        located = None
        if isinstance(error, CorruptRecordError):
            located = locate(cursor.partition, buffer, cursor.fetch.high_watermark, error)
        if located == "refetch":
            buffer.drop()
            self._assignment.refetch(cursor, buffer.end)
            return False
        if not self._undecodable.removes:
            # A batch that the policy removes is counted when it's removed.
            self._undecodable.count += 1
        if located is None or self._undecodable.policy == "raise":
            self._fail(cursor, located or error)
            return False
        buffer.replaced(stand_in(located, cursor.ownership), located.next_offset)
        if not buffer.chunks:
            # Fetch the rest again: the damaged header gave a different end, or the records after it couldn't be cut.
            self._assignment.refetch(cursor, located.next_offset)
        return True

    async def _removed(self, cursor: Cursor) -> bool:
        """Skip a damaged batch, or write its dead letter, if that is the policy. Return False if it's neither.

        Raises:
            KafkaError: The dead letter couldn't be written. The next call tries again.
        """
        records = cursor.buffer.records
        record = records[-1]
        if type(record) is not UndecodableRecord:
            return False
        assert record.error is not None
        if not self._undecodable.removes:
            return False
        with self.awaiting("its dead letter to be acknowledged", lambda: record):
            await self._undecodable.write_dead_letter(record, record.error)
        # A seek may have replaced the list in the meantime.
        if cursor.buffer.records is records:
            records.clear()
            self._assignment.delivered_at_once(cursor, 1)
            self._undecodable.removed(record.error)
        return True

    def _deliver_damaged(self, cursor: Cursor) -> FetchedBatch:
        """Deliver the record that represents a damaged batch, as a batch."""
        buffer = cursor.buffer
        record = buffer.records[-1]
        assert isinstance(record, UndecodableRecord)
        buffer.records = []
        self._assignment.delivered_at_once(cursor, 1)
        result = DamagedBatch(cursor.partition, record.offset, buffer.end, record)
        self._assignment.current = result
        return result

    def _fail(self, cursor: Cursor, error: KafkaError) -> None:
        # The other errors already include their partition.
        if not isinstance(error, BrokerError | CorruptBatchError):
            error = type(error)(f"{cursor.partition} at offset {cursor.buffer.end}: {error}")
        self._assignment.fail(cursor, error)


def _has_more(buffer: RecordBuffer) -> bool:
    """Return whether there is a batch to open now, or a thread has opened one."""
    return bool(buffer.chunks) and (buffer.opening is None or buffer.opening[1].done())


def _is_in_thread(buffer: RecordBuffer, reading: OpenRecords) -> bool:
    return buffer.opening is not None and buffer.opening[0] is reading


class BatchIterator:
    """The endless iterator of :meth:`Consumer.batches`. It isn't a generator: a cancellation would end a generator."""

    def __init__(self, reader: Reader, decompress: bool) -> None:
        self._reader = reader
        self._decompress = decompress

    def __aiter__(self) -> BatchIterator:
        return self

    async def __anext__(self) -> FetchedBatch:
        batch = await self._reader.batch(decompress=self._decompress)
        assert batch is not None
        return batch
