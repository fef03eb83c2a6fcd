"""Iterators over records that end. Not generators: a cancellation would end those."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from aiokproto.consumer.deserializing import DeserializingReader
from aiokproto.consumer.engine import Engine
from aiokproto.consumer.offsets import names
from aiokproto.errors import DeadlineError
from aiokproto.types import Record, TopicPartition

if TYPE_CHECKING:
    from typing_extensions import Self


async def _next(
    engine: Engine,
    deserializing: DeserializingReader[Any, Any],
    is_open: Callable[[], bool],
    open_more: Callable[[], Awaitable[bool]],
) -> Record[Any, Any] | None:
    """Deliver the next record; None once ``open_more`` has opened none."""
    assignment = engine.assignment
    while is_open() or await open_more():
        if not deserializing.needed:
            # As RecordIterator does.
            assignment.current = record = assignment.open.pop()
            return record
        if (delivered := await deserializing.deliver_one()) is not None:
            return delivered
    return None


class RecordsUntilIdle:
    """The iterator of :meth:`Consumer.records`."""

    def __init__(self, engine: Engine, deserializing: DeserializingReader[Any, Any], timeout: float) -> None:
        self._engine = engine
        self._deserializing = deserializing
        self._timeout = timeout

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record[Any, Any]:
        # Records that are open already are taken without the reader.
        self._engine.cluster.check_loop()
        assignment, reader = self._engine.assignment, self._engine.reader
        record = await _next(
            self._engine,
            self._deserializing,
            lambda: bool(assignment.open),
            lambda: reader.open(asyncio.get_running_loop().time() + self._timeout),
        )
        if record is None:
            raise StopAsyncIteration
        return record


class RecordsToEnd:
    """The iterator of :meth:`Consumer.read_to_end`.

    Partitions deliver up to their end only: what comes behind stays buffered for other reads. A partition has ended
    once the position has reached the end, which transaction markers and compacted records move too, or once it is not
    assigned any more.
    """

    def __init__(
        self,
        engine: Engine,
        deserializing: DeserializingReader[Any, Any],
        ends: Callable[[], Awaitable[Mapping[TopicPartition, int]]],
        timeout: float,
    ) -> None:
        """``ends`` looks up the ends; ``timeout`` seconds without a record are too long."""
        self._engine = engine
        self._deserializing = deserializing
        self._look_up = ends
        self._timeout = timeout
        self._ends: dict[TopicPartition, int] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record[Any, Any]:
        self._engine.cluster.check_loop()
        if self._ends is None:
            # With the first record, so that creating the iterator needs no await.
            self._ends = dict(await self._look_up())
            self._note_ends(self._ends)
        assignment, reader = self._engine.assignment, self._engine.reader
        record = await _next(
            self._engine,
            self._deserializing,
            lambda: self._is_open(assignment.open),
            lambda: reader.open_among(self._remaining, asyncio.get_running_loop().time() + self._timeout),
        )
        if record is not None:
            return record
        if not (remaining := self._remaining()):
            # As after a list of poll(): asking for more says that the last record is processed.
            raise StopAsyncIteration
        states = "; ".join(f"{each}: {self._engine.state(each)}" for each in sorted(remaining)[:3])
        raise DeadlineError(
            f"read_to_end: no record in {self._timeout:g} s, and the end of {names(remaining)} is not reached: {states}"
        )

    def _note_ends(self, ends: Mapping[TopicPartition, int]) -> None:
        """Let ``at_end()`` know the ends of partitions that were not fetched, as none is whose position is its end."""
        stable = self._engine.config.fetch.read_committed
        for partition, end in ends.items():
            if (cursor := self._engine.assignment.cursors.get(partition)) is not None:
                cursor.fetch.note_end(end, stable=stable)

    def _is_open(self, records: Sequence[Record[Any, Any]]) -> bool:
        """Return whether the next open record is one to deliver."""
        if not records or not self._ends:
            return False
        record = records[-1]
        return record.offset < self._ends.get(TopicPartition(record.topic, record.partition), 0)

    def _remaining(self) -> Mapping[TopicPartition, int]:
        """Return the partitions whose end is not reached, and their ends."""
        assert self._ends is not None, "the ends are known"
        cursors = self._engine.assignment.cursors
        for partition, end in list(self._ends.items()):
            cursor = cursors.get(partition)
            if cursor is None or (cursor.position is not None and cursor.position >= end):
                del self._ends[partition]
        return self._ends
