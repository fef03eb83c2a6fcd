"""Record iterators that end. They aren't generators: a cancellation would end a generator."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from aiokproto.consumer.deserializing import DeserializingReader
from aiokproto.consumer.engine import Engine
from aiokproto.consumer.offsets import names
from aiokproto.consumer.start_lookup import LATEST
from aiokproto.errors import DeadlineError
from aiokproto.types import Record, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Self


class _EndingRecords(ABC):
    """A record iterator that ends."""

    def __init__(self, engine: Engine, deserializing: DeserializingReader[Any, Any], timeout: float) -> None:
        """``timeout`` is the maximum number of seconds to wait for a record."""
        self._engine = engine
        self._deserializing = deserializing
        self._timeout = timeout

    def __aiter__(self) -> Self:
        return self

    async def _next(self) -> Record[Any, Any] | None:
        """Deliver the next record; None once :meth:`_open_more` doesn't open any."""
        assignment = self._engine.assignment
        while self._is_open() or await self._open_more():
            if not self._deserializing.needed:
                # This is what RecordIterator does, too.
                assignment.current = record = assignment.open.pop()
                return record
            if (delivered := await self._deserializing.deliver_one()) is not None:
                return delivered
        return None

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._timeout

    @abstractmethod
    def _is_open(self) -> bool:
        """Return whether the next open record should be delivered."""

    @abstractmethod
    async def _open_more(self) -> bool:
        """Wait for records and open them. Return False if there are none."""


class RecordsUntilIdle(_EndingRecords):
    """The iterator of :meth:`Consumer.records`."""

    async def __anext__(self) -> Record[Any, Any]:
        self._engine.cluster.check_loop()
        record = await self._next()
        if record is None:
            raise StopAsyncIteration
        return record

    def _is_open(self) -> bool:
        return bool(self._engine.assignment.open)

    async def _open_more(self) -> bool:
        return await self._engine.reader.open(self._deadline())


class RecordsToEnd(_EndingRecords):
    """The iterator of :meth:`Consumer.read_to_end`.

    It delivers partitions up to their end only: later records stay buffered for other reads. A partition is finished
    once its position has reached the end, which may be past transaction markers or compacted records, or once it's no
    longer assigned.
    """

    def __init__(
        self,
        engine: Engine,
        deserializing: DeserializingReader[Any, Any],
        partitions: Collection[TopicPartition] | None,
        timeout: float,
    ) -> None:
        """If there are no ``partitions``, it reads the group's first assignment. ``timeout`` is the maximum number of
        seconds to wait for an assignment, or for a record."""
        super().__init__(engine, deserializing, timeout)
        self._partitions = partitions
        self._ends: dict[TopicPartition, int] | None = None

    async def __anext__(self) -> Record[Any, Any]:
        self._engine.cluster.check_loop()
        if self._ends is None:
            # Look up the ends with the first record, because creating the iterator cannot await.
            self._ends = await self._look_up_ends()
            self._note_ends(self._ends)
        record = await self._next()
        if record is not None:
            return record
        if not (remaining := self._remaining()):
            # As with the list from poll(), requesting more means that the last record is processed.
            raise StopAsyncIteration
        states = "; ".join(f"{partition}: {self._engine.state(partition)}" for partition in sorted(remaining)[:3])
        raise DeadlineError(
            f"read_to_end: no record in {self._timeout:g} s, and the end of {names(remaining)} is not reached: {states}"
        )

    async def _look_up_ends(self) -> dict[TopicPartition, int]:
        if self._partitions is None:
            await self._engine.wait_until_assigned(self._timeout)
        partitions = self._partitions or self._engine.assignment.cursors
        return await self._engine.lookup.offsets(dict.fromkeys(partitions, LATEST), self._timeout)

    def _note_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        """Note the ends for ``at_end()``: a partition whose position is its end isn't fetched."""
        stable = self._engine.config.fetch.read_committed
        for partition, end in ends.items():
            if (cursor := self._engine.assignment.cursors.get(partition)) is not None:
                cursor.fetch.note_end(end, stable=stable)

    def _is_open(self) -> bool:
        records = self._engine.assignment.open
        if not records or not self._ends:
            return False
        record = records[-1]
        return record.offset < self._ends.get(TopicPartition(record.topic, record.partition), 0)

    async def _open_more(self) -> bool:
        return await self._engine.reader.open_among(self._remaining, self._deadline())

    def _remaining(self) -> Mapping[TopicPartition, int]:
        """Return the partitions whose end hasn't been reached, and their ends."""
        assert self._ends is not None, "the ends are known"
        cursors = self._engine.assignment.cursors
        for partition, end in list(self._ends.items()):
            cursor = cursors.get(partition)
            if cursor is None or (cursor.position is not None and cursor.position >= end):
                del self._ends[partition]
        return self._ends
