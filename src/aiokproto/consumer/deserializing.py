"""Delivery with deserializers: what ``async for`` and ``poll`` do if the consumer has any.

**Nothing is lost or repeated.** A record leaves the open list, which moves the position, only after its deserializer
has returned and its dead letter is acknowledged. After that nothing is awaited until the call returns, so a cancelled
call has taken no records. A seek, pause or revocation in the meantime has replaced the list, and the results are
dropped.

Errors are found in order of offsets. The good records before an error are delivered first, and the next call starts
with the record that has the error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.cursor import Cursor
from aiokproto.consumer.deserializers import NOT_ABOUT_THE_RECORD, Deserializers
from aiokproto.consumer.reader import Reader
from aiokproto.consumer.undecodable import Undecodable
from aiokproto.errors import DeadlineError, RecordDeserializationError
from aiokproto.runtime.coroutines import resumed
from aiokproto.runtime.timeouts import deadline_at
from aiokproto.types import K, RawControlRecord, Record, UndecodableRecord, V

if TYPE_CHECKING:
    from typing_extensions import Self

T = TypeVar("T")

_Deserialized = tuple[Cursor, list[Record], list[Record], list[Record[Any, Any]]]
"""A partition, all its open records, the ones that were deserialized, and the deserialized results."""

_AS_THEY_ARE = (UndecodableRecord, RawControlRecord)


class DeserializingReader(Generic[K, V]):
    """Delivers records with keys and values deserialized, to one caller at a time.

    Attributes:
        needed: Whether there is a deserializer.
    """

    def __init__(
        self,
        assignment: Assignment,
        reader: Reader,
        deserializers: Deserializers[K, V],
        undecodable: Undecodable,
        timeout: float,
    ) -> None:
        """``timeout`` is the number of seconds that a read may wait for deserializers."""
        self.needed = bool(deserializers)
        self._timeout = timeout
        self._assignment = assignment
        self._reader = reader
        self._deserializers = deserializers
        self._undecodable = undecodable
        # Whether a call is awaiting something here. This cannot be reader.waiting, because the group must notice if a
        # deserializer hangs.
        self._busy = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record[K, V]:
        """Deliver the next record. Raises the same errors as :meth:`Consumer.__anext__`."""
        while True:
            self._check_alone()
            if not self._assignment.open:
                await self._reader.open()
            if (record := await self.deliver_one()) is not None:
                return record

    async def deliver_one(self) -> Record[K, V] | None:
        """Deliver the first open record. Return None if the open records have changed in the meantime, or if the policy
        has dealt with the record. Raises the same errors as :meth:`Consumer.__anext__`."""
        self._check_alone()
        delivered = await self._deliver(1)
        if not delivered:
            return None
        self._assignment.current = delivered[0]
        return delivered[0]

    async def poll(self, deadline: float, most: int, by: object = None, *, least: int = 1) -> list[Record[K, V]]:
        """Deliver up to ``most`` records, or none if there are none by ``deadline`` (loop time).

        With ``least`` above 1, it first collects that many records from all partitions. ``by``: see
        :meth:`Reader.open <aiokproto.consumer.reader.Reader.open>`.
        """
        self._check_alone()
        if least > 1 and (delivered := await self._deliver_collected(deadline, least, most)):
            self._assignment.current = delivered
            return delivered
        delivered = []
        while not delivered:
            if not await self._reader.open(deadline, by=by):
                return []
            delivered = await self._deliver(most, by)
        # These records, and the ones added below, now count as being processed, even if a deserializer raises.
        self._assignment.current = delivered
        # Add more as long as nothing has to be awaited: a cancellation would lose the records that were taken.
        while len(delivered) < most and not self._deserializers.is_async and self._reader.open_at_once():
            opened = self._assignment.open
            more, error = self._apply(opened[: len(delivered) - most - 1 : -1])
            # A deserializer has sought or paused the partition, so these records will be delivered later.
            if self._assignment.open is not opened:
                break
            self._take(len(more), more)
            delivered += more
            # The next call starts with this record.
            if error is not None:
                break
        return delivered

    async def take(self, most: int, owner: object) -> list[Record[K, V]]:
        """Take up to ``most`` of the open records, for the owner of the reader. Return an empty list if they have
        changed in the meantime, or if the policy has dealt with the first record.

        Raises:
            RecordDeserializationError: The first record cannot be decoded, and the policy is to raise. It stays open.
        """
        self._check_alone()
        return await self._deliver(most, owner, stays=True)

    async def deserialize(self, record: Record) -> Record[K, V]:
        """Return a record with its key and value deserialized. The policy doesn't apply."""
        if (as_it_is := self._stand_in(record)) is not None:
            return as_it_is
        if not self._deserializers.is_async:
            return self._deserializers.apply(record)
        at = asyncio.get_running_loop().time() + self._timeout
        async with deadline_at(at, lambda: self._late(record)):
            return await self._deserializers.apply_later(record)

    def _check_alone(self) -> None:
        if self._busy:
            raise RuntimeError("another task is waiting for records of this consumer; only one can at a time")

    async def _deliver(self, most: int, owner: object = None, *, stays: bool = False) -> list[Record[K, V]]:
        """Like :meth:`take`, but a record with an error is taken, too, unless it ``stays``.

        Raises:
            RecordDeserializationError: The first record cannot be decoded, and the policy is to raise.
        """
        opened = self._assignment.open
        chosen = opened[: -most - 1 : -1]
        if self._deserializers.is_async:
            made, error = await self._apply_later(chosen, owner)
        else:
            made, error = self._apply(chosen)
        failed = None if made else error
        if isinstance(failed, NOT_ABOUT_THE_RECORD):
            # The record stays, and the next call tries it again.
            raise failed
        if failed is not None and self._undecodable.awaited:
            with self._reader.awaiting("its dead letter to be acknowledged", lambda: chosen[0]):
                await self._alone(self._undecodable.write_dead_letter(chosen[0], failed), owner)
        if failed is not None and stays and not self._undecodable.removes:
            # The application hasn't seen the record, so it's unfinished.
            self._undecodable.count += 1
            raise failed
        count = len(made) or int(failed is not None)
        # Compare by identity: a seek or a revocation replaces the list.
        if self._assignment.open is not opened or opened[: -count - 1 : -1] != chosen[:count]:
            return []
        if self._reader.owner is not owner:
            # A deserializer has swallowed its cancellation, and its run has ended.
            raise asyncio.CancelledError
        self._take(count, made)
        if failed is not None:
            if not self._undecodable.removes:
                self._undecodable.count += 1
                # The record is delivered as an error, and counts as processed once the next record is requested.
                self._assignment.current = chosen[0]
                raise failed
            self._undecodable.removed(failed)
        return made

    async def _deliver_collected(self, deadline: float, least: int, most: int) -> list[Record[K, V]]:
        """Collect ``least`` records by ``deadline`` (loop time), not counting skipped ones. Then take up to ``most``
        from all partitions, stopping at the first record that cannot be decoded."""
        time = asyncio.get_running_loop().time
        while True:
            await self._reader.collect(least, deadline)
            skipped = self._undecodable.count
            ready = await self._deserialize_collected(most)
            enough = sum(len(made) for *_, made in ready) >= least
            if enough or self._undecodable.count == skipped or time() >= deadline:
                return self._take_collected(ready)

    async def _deserialize_collected(self, most: int) -> list[_Deserialized]:
        """Deserialize up to ``most`` of the open records of all partitions, which stay open."""
        ready: list[_Deserialized] = []
        for cursor in self._reader.collected():
            opened = cursor.buffer.records
            chosen: list[Record] = []
            made: list[Record[K, V]] = []
            error: Exception | None = None
            again = True
            while again:
                following = opened[-len(made) - 1 : -most - 1 : -1]
                if self._deserializers.is_async:
                    more, error = await self._apply_later(following, None)
                else:
                    more, error = self._apply(following)
                chosen += following[: len(more)]
                made += more
                again = error is not None and self._skip(cursor, opened, -len(made) - 1, following[len(more)], error)
            ready.append((cursor, opened, chosen, made))
            most -= len(made)
            # The next call starts with this record.
            if error is not None or not most:
                break
        return ready

    def _skip(self, cursor: Cursor, opened: list[Record], index: int, record: Record, error: Exception) -> bool:
        """Remove a record that cannot be decoded from the open records, if that is the policy."""
        if not self._undecodable.skips or isinstance(error, NOT_ABOUT_THE_RECORD):
            return False
        # Compare by identity: a seek or a revocation replaces the list.
        if cursor.buffer.records is not opened or opened[index] is not record:
            return False
        del opened[index]
        cursor.buffer.delivered()
        self._undecodable.removed(error)
        return True

    def _take_collected(self, ready: list[_Deserialized]) -> list[Record[K, V]]:
        """Take deserialized records in one step. Records of partitions that were sought, paused or taken away in the
        meantime aren't taken."""
        delivered: list[Record[K, V]] = []
        deliverable = self._reader.collected()
        for cursor, opened, chosen, made in ready:
            unchanged = cursor in deliverable and cursor.buffer.records is opened
            if made and unchanged and opened[: -len(made) - 1 : -1] == chosen:
                self._assignment.end_turn()
                self._assignment.serve(cursor)
                self._take(len(made), made)
                delivered += made
        return delivered

    async def _alone(self, work: Coroutine[Any, Any, T], owner: object) -> T:
        """Await ``work`` while no other task may request records, and the application isn't processing any."""
        self._busy = True
        try:
            # The application is requesting a record, so a rebalance must not wait for the previous one.
            self._reader.requested(owner)
            return await work
        finally:
            self._busy = False
            # Close the coroutine in case it wasn't awaited: Python would warn about it.
            work.close()

    def _take(self, count: int, made: list[Record[K, V]]) -> None:
        """Remove the first records, which moves the position past them."""
        if count:
            del self._assignment.open[-count:]
        if self._undecodable.policy == "return":
            # Damaged batches were counted when the reader found them.
            self._undecodable.count += sum(isinstance(each.error, RecordDeserializationError) for each in made)

    def _apply(self, records: list[Record]) -> tuple[list[Record[K, V]], Exception | None]:
        """Return the records up to the first one with an error, and that error.

        It isn't raised here, because that would lose the records before it.
        """
        made: list[Record[K, V]] = []
        # Set this so that a deserializer that requests records cannot take these.
        self._busy = True
        try:
            for record in records:
                try:
                    made.append(self._stand_in(record) or self._deserializers.apply(record))
                except RecordDeserializationError as error:
                    if not self._returned(record, error, made):
                        return made, error
                except NOT_ABOUT_THE_RECORD as error:
                    return made, error
        finally:
            self._busy = False
        return made, None

    async def _apply_later(self, records: list[Record], owner: object) -> tuple[list[Record[K, V]], Exception | None]:
        """Like :meth:`_apply`, for the records whose deserializers return in time."""
        made: list[Record[K, V]] = []
        work = self._apply_each(records, made)
        # Set up the deadline only if a deserializer suspends: most deserializers rarely do, and cost less than a
        # deadline.
        self._busy = True
        try:
            waits_for = work.send(None)
        except StopIteration as done:
            return made, done.value
        finally:
            self._busy = False

        def current() -> Record:
            return records[len(made)]

        at = asyncio.get_running_loop().time() + self._timeout
        try:
            # Use one deadline for all records. Records that are ready by then are delivered, and the next call has the
            # same time for the rest.
            async with deadline_at(at, lambda: self._late(current())):
                with self._reader.awaiting(self._deserializers.awaited, current):
                    return made, await self._alone(resumed(work, waits_for), owner)
        except DeadlineError as error:
            return made, error
        finally:
            work.close()

    async def _apply_each(self, records: list[Record], made: list[Record[K, V]]) -> Exception | None:
        for record in records:
            try:
                made.append(self._stand_in(record) or await self._deserializers.apply_later(record))
            except RecordDeserializationError as error:
                if not self._returned(record, error, made):
                    return error
            except NOT_ABOUT_THE_RECORD as error:
                return error
        return None

    def _late(self, record: Record) -> str:
        return (
            f"{record.topic}-{record.partition}: {self._deserializers.awaited} did not return for the record at offset "
            f"{record.offset} within default_api_timeout_ms={self._timeout * 1000:g}; the next read calls it again"
        )

    def _stand_in(self, record: Record) -> Record[K, V] | None:
        """Return the record itself if it represents a damaged batch, or is a control record."""
        return cast("Record[K, V]", record) if type(record) in _AS_THEY_ARE else None

    def _returned(self, record: Record, error: RecordDeserializationError, made: list[Record[K, V]]) -> bool:
        """Append the record with its error, if that is the policy."""
        if self._undecodable.policy != "return":
            return False
        made.append(UndecodableRecord(record, error))
        return True
