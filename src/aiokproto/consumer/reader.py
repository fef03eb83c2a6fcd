"""Handing out: what ``async for``, ``poll`` and ``batches`` do when nothing is opened yet."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.batch import FetchedBatch
from aiokproto.consumer.chunk import expected_size, open_batch
from aiokproto.consumer.cursor import Cursor
from aiokproto.consumer.turn import Turn
from aiokproto.consumer.unpacked import is_packed, unpack
from aiokproto.errors import BrokerError, CorruptRecordError, KafkaError, UnsupportedCompressionError
from aiokproto.records import RecordBatch
from aiokproto.types import Record

OFF_LOOP = 256 * 1024
"""Bytes of records from which on they are decompressed and decoded in a thread, so that the loop can go on."""

CHECKED_ON_LOOP = 2 * 1024 * 1024
"""Bytes whose checksums are compared within a turn of the loop, in some tenths of a millisecond."""

T = TypeVar("T")

RunInThread = Callable[[Callable[[], Any]], "asyncio.Future[Any]"]
"""Runs what takes long in one of the client's threads."""


class Reader:
    """Opens batches, in turns, for one user at a time.

    Cancelling a call changes nothing: what it was opening is opened by the next one.

    Attributes:
        asked: How often somebody has come for more.
        waiting: Whether somebody is waiting for it.
    """

    def __init__(
        self, assignment: Assignment, check_crcs: bool, check: Callable[[], None], run_in_thread: RunInThread
    ) -> None:
        """``check`` raises what keeps the consumer from going on, if anything does."""
        self.asked = 0
        self.waiting = False
        self._assignment = assignment
        self._check_crcs = check_crcs
        self._check = check
        self._run_in_thread = run_in_thread
        self._arrived = asyncio.Event()
        self._put_down = asyncio.Event()
        self._turn = Turn()

    def wake(self) -> None:
        """There may be something to hand out, or a reason to give up waiting."""
        self._arrived.set()

    async def put_down(self, deadline: float) -> None:
        """Wait until the next is asked for, and what is in hand finished; no longer than that loop time."""
        self._put_down.clear()
        handle = asyncio.get_running_loop().call_at(deadline, self._put_down.set)
        try:
            await self._put_down.wait()
        finally:
            handle.cancel()

    def give_up_waiting(self) -> None:
        """End :meth:`put_down` now."""
        self._put_down.set()

    async def open(self, deadline: float | None = None) -> bool:
        """Have records in ``assignment.open``. False if there are none by that loop time.

        Raises:
            KafkaError: A partition failed; what keeps the consumer from going on.
        """
        self._begin()
        try:
            await self._turn.pause()
            while (cursor := await self._next(deadline)) is not None:
                if cursor.buffer.records or self._open(cursor):
                    self._assignment.serve(cursor)
                    return True
            return False
        finally:
            self.waiting = False

    def open_at_once(self) -> bool:
        """As :meth:`open`, for what takes neither waiting nor long. False as well if others should have their turn."""
        if self._turn.is_over():
            return False
        cursor = self._assignment.next_cursor()
        while cursor is not None and cursor.error is None:
            buffer = cursor.buffer
            if not buffer.records:
                if not buffer.chunks[0].batches or expected_size(buffer.chunks[0].batches[0]) > OFF_LOOP:
                    return False
                batch = buffer.chunks[0].batches[0]
                position = buffer.end
                try:
                    buffer.opened(open_batch(batch, cursor.partition, position, self._check_crcs), batch)
                except (CorruptRecordError, UnsupportedCompressionError):
                    # The next call finds it again, and raises it with nothing else in hand.
                    return False
            if buffer.records:
                self._assignment.serve(cursor)
                return True
            cursor = self._assignment.next_cursor()
        return False

    async def batch(self, deadline: float | None = None, *, decompress: bool = True) -> FetchedBatch | None:
        """The next batch, which is in hand then. None if there is none by that loop time. Raises as :meth:`open`.

        ``decompress`` says whether reading it is not to keep the loop busy.
        """
        self._begin()
        try:
            await self._turn.pause()
            while (cursor := await self._next(deadline)) is not None:
                buffer = cursor.buffer
                batches = [buffer.batch] if buffer.records and buffer.batch else []
                if buffer.chunks:
                    batches += buffer.chunks[0].batches
                if not batches:
                    self._fail(cursor, buffer.chunks[0].damage or CorruptRecordError("no batch"))
                    continue
                try:
                    prepared = self._prepared(cursor, batches, decompress)
                except CorruptRecordError as error:
                    self._fail(cursor, error)
                    continue
                if prepared is None:
                    continue
                base = cursor.position
                assert base is not None
                buffer.take()
                self._assignment.handed(cursor)
                result = FetchedBatch(cursor.partition, base, buffer.end, prepared)
                self._assignment.hand = result
                return result
            return None
        finally:
            self.waiting = False

    def _begin(self) -> None:
        self._check()
        if self.waiting:
            raise RuntimeError("another task is waiting for this consumer's records: one at a time can")
        self.waiting = True
        self.asked += 1
        self._assignment.put_down()
        self._put_down.set()

    async def _next(self, deadline: float | None) -> Cursor | None:
        """Whose turn it is. Raises its error, if it has one."""
        while True:
            self._check()
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
        if deadline is None:
            await self._arrived.wait()
            return True
        loop = asyncio.get_running_loop()
        if loop.time() >= deadline:
            # Whoever asks again and again without waiting would keep the answers from coming.
            await asyncio.sleep(0)
            return False
        handle = loop.call_at(deadline, self._arrived.set)
        try:
            await self._arrived.wait()
        finally:
            handle.cancel()
        return True

    def _open(self, cursor: Cursor) -> bool:
        """Open the next batch of a cursor. False if that brought nothing, for whatever reason."""
        chunk = cursor.buffer.chunks[0]
        if not chunk.batches:
            self._fail(cursor, chunk.damage or CorruptRecordError("no batch"))
            return False
        batch = chunk.batches[0]
        work = partial(open_batch, batch, cursor.partition, cursor.buffer.end, self._check_crcs)
        try:
            if expected_size(batch) <= OFF_LOOP:
                records: list[Record] | None = work()
            else:
                records = self._in_thread(cursor, id(batch), work)
        except (CorruptRecordError, UnsupportedCompressionError) as error:
            self._fail(cursor, error)
            return False
        if records is None:
            return False
        cursor.buffer.opened(records, batch)
        return bool(records)

    def _prepared(self, cursor: Cursor, batches: list[RecordBatch], decompress: bool) -> list[RecordBatch] | None:
        """The batches, as correct as their checksums tell; if wanted, decompressed where one would keep the loop
        busy. None while a thread does it."""
        packed = decompress and any(is_packed(batch) and expected_size(batch) > OFF_LOOP for batch in batches)

        def prepare() -> list[RecordBatch]:
            if self._check_crcs:
                for batch in batches:
                    batch.validate()
            return unpack(batches) if packed else batches

        if packed or (self._check_crcs and sum(batch.size_in_bytes for batch in batches) > CHECKED_ON_LOOP):
            return self._in_thread(cursor, (decompress, *map(id, batches)), prepare)
        return prepare()

    def _in_thread(self, cursor: Cursor, what: object, work: Callable[[], list[T]]) -> list[T] | None:
        """What the work brings; None while a thread is busy with it: then other partitions have their turn.

        It is begun once: a call that ends before it is done leaves it to the next one. ``what`` says which work it is.
        """
        buffer = cursor.buffer
        if buffer.opening is None or buffer.opening[0] != what:
            future = self._run_in_thread(work)
            buffer.opening = (what, future)
            future.add_done_callback(partial(self._opened_in_thread, cursor))
        future = buffer.opening[1]
        if not future.done():
            self._assignment.yield_turn(cursor)
            return None
        buffer.opening = None
        result: list[T] = future.result()
        return result

    def _opened_in_thread(self, cursor: Cursor, future: asyncio.Future[Any]) -> None:
        # An error is looked at here, or it would be logged where nobody wants it any more, after a seek.
        if future.cancelled() or (future.exception() is not None and cursor.buffer.opening is None):
            return
        self._assignment.arrived(cursor)

    def _fail(self, cursor: Cursor, error: KafkaError) -> None:
        if not isinstance(error, BrokerError):
            # Errors of brokers have their context.
            error = type(error)(f"{cursor.partition} at offset {cursor.buffer.end}: {error}")
        self._assignment.fail(cursor, error)
