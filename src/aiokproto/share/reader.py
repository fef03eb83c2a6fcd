"""The reader, which ``async for``, ``poll``, ``batches`` and ``run`` call when no records are open."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

from aiokproto.errors import CorruptRecordError, KafkaError, UnsupportedCompressionError
from aiokproto.fetched.time_slice import TimeSlice
from aiokproto.interceptors import Interceptors
from aiokproto.observe.observers import ShareObserver
from aiokproto.runtime.timeouts import wait_until
from aiokproto.share.acknowledgement import Acknowledgement
from aiokproto.share.buffer import FetchedPart, Offsets, ShareBuffer
from aiokproto.share.ledger import ShareRecord
from aiokproto.texts import repr_of
from aiokproto.types import Record

if TYPE_CHECKING:
    from aiokproto.share.engine import ShareEngine

log = logging.getLogger("aiokproto.share")


class ShareReader:
    """Opens and delivers records, for one caller at a time.

    A record is delivered only while its lock is held. Cancelling a call has no effect on the records: the next call
    continues with the batch that was being opened.

    Attributes:
        requests: The number of requests for records.
        waiting: Whether a call is waiting for records.
        unmet: Whether the last call has returned without records. If so, records are fetched for the next call.
        delivered: The number of delivered records.
    """

    def __init__(
        self,
        engine: ShareEngine,
        buffer: ShareBuffer,
        damaged: Acknowledgement,
        observer: ShareObserver,
        interceptors: Interceptors,
    ) -> None:
        """Create a reader.

        Args:
            engine: Fetches records and queues acknowledgements.
            buffer: Where the records come from.
            damaged: How to acknowledge damaged records.
            observer: Counts delivered records.
            interceptors: Get the records before the application does.
        """
        self.requests = 0
        self.waiting = False
        self.unmet = False
        self.delivered = 0
        self._engine = engine
        self._buffer = buffer
        self._damaged = damaged
        self._observer = observer
        # It's None if no interceptor wants records, so the check doesn't need a call.
        self._interceptors = interceptors if interceptors.receiving else None
        # The part whose records are being delivered. Some of them may not be reported to the observer yet.
        self._delivering: FetchedPart | None = None
        # Records collected by a call that was interrupted. They're delivered first.
        self._kept: deque[ShareRecord] = deque()
        self._errors: deque[KafkaError] = deque()
        self._arrived = asyncio.Event()
        self._slice = TimeSlice()
        self._stopped = False
        self._time: Callable[[], float] = _no_time

    def wake(self) -> None:
        """Make a waiting call check again for records, and for errors to raise."""
        self._arrived.set()

    def fail(self, error: KafkaError) -> None:
        """Make the next call raise an error, once."""
        # Report an error only once, even if it repeats before the next call.
        if all(str(error) != str(other) for other in self._errors):
            self._errors.append(error)
        self._arrived.set()

    def stop(self) -> None:
        """Deliver no more records until a call of :meth:`open`."""
        self._stopped = True
        self._arrived.set()

    def keep(self, records: Iterable[ShareRecord]) -> None:
        """Deliver these records, which were taken but not returned, once more."""
        self._kept.extend(records)

    def held(self, records: list[ShareRecord]) -> list[ShareRecord]:
        """Return the records whose locks are still held. The broker will deliver the others again."""
        now = self._time()
        return [record for record in records if record._lock.failure(now) is None]

    def drop_kept(self, topics: Collection[str]) -> list[ShareRecord]:
        """Drop the kept records of all other topics, and return them."""
        dropped = [record for record in self._kept if record.topic not in topics]
        self._kept = deque(record for record in self._kept if record.topic in topics)
        return dropped

    def _has_kept(self) -> bool:
        """Return whether there are kept records. Drop any whose lock is lost: another member gets them."""
        now = self._time()
        while self._kept and self._kept[0]._lock.failure(now) is not None:
            self._kept.popleft()
        return bool(self._kept)

    def next_record(self) -> ShareRecord | None:
        """Deliver the next opened record, without waiting. Return None if there is none, or if its lock is lost."""
        if self._kept and not self._stopped and self._has_kept():
            return self._kept.popleft()
        part = self._buffer.first
        if part is None or not part.opened or self._stopped:
            return None
        now = self._time()
        lock = part.lock
        # guard: a record is delivered only while its lock is held
        if now >= lock.deadline or lock.acquired.lost is not None:
            return None
        record = part.opened.pop()
        lock.acquired.deliver(record)
        part.delivered += 1
        self.delivered += 1
        self._delivering = part
        if not part.opened:
            self._finish(part, now)
        return record

    def take_open(self, most: int) -> list[ShareRecord]:
        """Deliver up to ``most`` opened records of one partition, without waiting. If their lock is lost, don't deliver
        any."""
        if self._kept and not self._stopped and self._has_kept():
            return self._take_kept(most)
        now = asyncio.get_running_loop().time()
        part = self._buffer.head(now)
        if part is None or not part.opened or self._stopped:
            return []
        records = part.opened[: -most - 1 : -1]
        del part.opened[-most:]
        for record in records:
            part.lock.acquired.deliver(record)
        part.delivered += len(records)
        self.delivered += len(records)
        self._delivering = part
        self._finish(part, now)
        return records

    def _take_kept(self, most: int) -> list[ShareRecord]:
        first, records = self._kept[0], list[ShareRecord]()
        while len(records) < most and self._has_kept():
            record = self._kept[0]
            if (record.topic, record.partition) != (first.topic, first.partition):
                break
            records.append(self._kept.popleft())
        return records

    async def open(self, deadline: float | None = None) -> bool:
        """Open records. Return False if there are none by ``deadline`` (loop time).

        Raises:
            KafkaError: A partition, or the consumer, has failed.
        """
        self._engine.check()
        if self.waiting:
            raise RuntimeError("another task is waiting for records of this consumer; only one can at a time")
        self.waiting = True
        self.unmet = False
        self.requests += 1
        self._time = asyncio.get_running_loop().time
        self._observer.polled(self._time())
        self._report()
        try:
            await self._slice.pause()
            while True:
                self._engine.check()
                if self._errors:
                    raise self._errors.popleft().with_traceback(None)
                if self._has_kept():
                    return True
                self._arrived.clear()
                part = self._buffer.head(asyncio.get_running_loop().time())
                if part is None:
                    self._engine.fetcher.wake()
                    if not await self._wait(deadline):
                        self.unmet = True
                        self._engine.fetcher.wake()
                        return False
                elif part.opened or await self._open(part, deadline):
                    # Check the lock again: opening may have taken a long time.
                    if self._buffer.head(asyncio.get_running_loop().time()) is part:
                        return True
                elif deadline is not None and asyncio.get_running_loop().time() >= deadline:
                    return False
                else:
                    # Pause: a batch can contain many slices without an acquired record.
                    await self._slice.pause()
        finally:
            self.waiting = False

    def open_at_once(self) -> bool:
        """Like :meth:`open`, but don't wait or do long work. It also returns False if other tasks should run first."""
        if self._has_kept():
            return True
        while not self._slice.is_over() and not self._errors:
            part = self._buffer.head(asyncio.get_running_loop().time())
            if part is None:
                return False
            if part.opened:
                return True
            if not self._is_quick(part):
                return False
            self._open_next(part)
        return False

    def _report(self) -> None:
        """Report the delivered records of the last part."""
        part, self._delivering = self._delivering, None
        if part is not None and (count := part.delivered - part.reported):
            part.reported = part.delivered
            following = part.opened[-1].offset if part.opened else part.position
            self._observer.delivered(part.lock.acquired.partition, count, following)

    async def _wait(self, deadline: float | None) -> bool:
        loop = asyncio.get_running_loop()
        since = loop.time()
        try:
            return await self._wait_until(deadline, loop)
        finally:
            self._observer.waited += loop.time() - since

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

    async def _open(self, part: FetchedPart, deadline: float | None) -> bool:
        """Open the next batch of a part. Return whether there are records now."""
        if self._is_quick(part):
            return self._open_next(part)
        reading = part.read()
        if part.opening is None or part.opening[0] is not reading:
            future = self._engine.cluster.run_in_thread(reading.read)
            # Retrieve the error, in case no call does: asyncio would log that it was never retrieved.
            future.add_done_callback(lambda done: self._arrived.set() if done.cancelled() else self._opened(done))
            part.opening = (reading, future)
        future = part.opening[1]
        if not future.done():
            await self._wait(deadline)
            return False
        part.opening = None
        return self._store(part, future.result)

    def _is_quick(self, part: FetchedPart) -> bool:
        """Return whether the event loop may open the next slice of a part."""
        if part.chunk is None or not part.chunk.batches:
            return True
        if part.opening is not None:
            return False
        try:
            return part.read().is_quick()
        except (CorruptRecordError, UnsupportedCompressionError):
            # Opening the batch finds the error again.
            part.reading = None
            return True

    def _opened(self, future: asyncio.Future[Any]) -> None:
        future.exception()
        self._arrived.set()

    def _open_next(self, part: FetchedPart) -> bool:
        chunk = part.chunk
        if chunk is None:
            self._acknowledge(part, part.pass_until(None), Acknowledgement.GAP, None)
        elif chunk.batches:
            return self._store(part, part.read().read)
        else:
            part.skip_chunk()
            self._damage(part, part.pass_until(None), chunk.damage or CorruptRecordError("no batch"))
        self._finish(part, asyncio.get_running_loop().time())
        return False

    def _store(self, part: FetchedPart, opened: Callable[[], list[ShareRecord]]) -> bool:
        """Store the opened records of the next slice, and acknowledge its remaining acquired offsets."""
        try:
            records = opened()
        except (CorruptRecordError, UnsupportedCompressionError) as error:
            # Remove the traceback: its frames refer to the future that holds the error, a cycle that would keep the
            # decompressed records alive.
            self._damage(part, part.take_batch(), error.with_traceback(None))
        else:
            self._acknowledge(part, part.take(records), Acknowledgement.GAP, None)
            # Do this after the gaps: a record that interceptors drop isn't a gap.
            part.opened = self._intercepted(records)[::-1]
        self._finish(part, asyncio.get_running_loop().time())
        return bool(part.opened)

    def _intercepted(self, records: list[ShareRecord]) -> list[ShareRecord]:
        """Pass records to the interceptors. Return the records to deliver, in order of offsets.

        A record that an interceptor drops counts as processed, as in the consumer: it's accepted, unless the
        interceptor has acknowledged it differently. If the interceptor replaces it with a plain record, that one is
        delivered with its lock.
        """
        if self._interceptors is None or not records:
            return records
        rest = {record.offset: record for record in records}
        found: list[ShareRecord] = []
        for record in self._interceptors.on_records(list[Record](records)):
            original = rest.pop(record.offset, None)
            if original is None:
                log.error(
                    "share consumer: an interceptor has returned %s, which it did not get, or twice", repr_of(record)
                )
            elif isinstance(record, ShareRecord):
                found.append(record)
            else:
                found.append(original.replaced_by(record))
        self._engine.acknowledge_rest(rest.values(), Acknowledgement.ACCEPT)
        return sorted(found, key=lambda record: record.offset)

    def _damage(self, part: FetchedPart, offsets: Iterable[Offsets], error: KafkaError) -> None:
        """Acknowledge records that can't be decoded."""
        error = type(error)(f"{part.lock.acquired.partition}: {error}")
        if isinstance(error, UnsupportedCompressionError):
            # Other members may have the library, so release the records. Raise the error to inform the application
            # before they're archived.
            self._acknowledge(part, offsets, Acknowledgement.RELEASE, error)
            self.fail(error)
        else:
            log.error("share consumer: %s; the records are acknowledged as %s", error, self._damaged.name)
            self._acknowledge(part, offsets, self._damaged, error)

    def _acknowledge(
        self, part: FetchedPart, offsets: Iterable[Offsets], kind: Acknowledgement, cause: KafkaError | None
    ) -> None:
        now = asyncio.get_running_loop().time()
        for first, last in offsets:
            ack = part.lock.acquired.acknowledge_undelivered(first, last, kind, part.lock, cause, now)
            if ack is not None:
                self._engine.queued(ack)

    def _finish(self, part: FetchedPart, now: float) -> None:
        """Remove a part that has no records left."""
        if not part.opened:
            self._report()
        if not part.opened and part.chunk is None:
            if part.position <= part.ranges[-1].last:
                self._acknowledge(part, part.pass_until(None), Acknowledgement.GAP, None)
            self._buffer.finished(part, now)


def _no_time() -> float:
    """The clock before the first request, while nothing is open."""
    return float("inf")
