"""Yields to the event loop during long work.

Appending, reading, and handling one item of a request are synchronous. A request can have fifty thousand items in 100
KB. Without pauses, its connection would block all others for as long as half a second, and heartbeats would be late.
Each connection has one budget for all its work, in any part of the broker and any number of requests: decoding,
authorizing, refusing, handling and encoding all pause when the budget is used up.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from aiokproto.codec.steps import Steps

T = TypeVar("T")

_BYTES = 1 << 20
"""Appending or reading this much takes about a millisecond."""

ITEM = 1 << 12
"""How much an item counts as, in bytes. 256 items take less than three milliseconds, whatever is done with them."""


class YieldBudget:
    """Yields to the event loop once per megabyte, or for an equivalent amount of work.

    Attributes:
        items: How many items have been counted.
    """

    def __init__(self) -> None:
        self.items = 0
        self._left = _BYTES

    def uses_up(self, size: int = ITEM) -> bool:
        """Account for an item of ``size`` bytes of work. Return whether the budget is used up. If so, call
        :meth:`pause`."""
        self.items += 1
        self._left -= size
        return self._left < 0

    async def pause(self) -> None:
        """Let other tasks run."""
        self._left = _BYTES
        await asyncio.sleep(0)

    async def spend(self, size: int) -> None:
        """Account for an item of ``size`` bytes, and pause if the budget is used up."""
        if self.uses_up(size):
            await self.pause()

    def each(self, items: Iterable[T]) -> _Each[T]:
        """Iterate over items, each of which counts as :data:`ITEM` bytes. Other tasks may run between two items,
        so check again what you checked before.

        This takes two microseconds, plus one for each item. The loops for the most frequent requests call
        :meth:`uses_up` instead.
        """
        return _Each(self, iter(items))

    async def finish(self, steps: Steps[T]) -> T:
        """Do work in steps, each of which counts as an item, and return the result."""
        while True:
            try:
                next(steps)
            except StopIteration as end:
                result: T = end.value
                return result
            if self.uses_up():
                await self.pause()


class _Each(Generic[T]):
    """An iterator rather than an async generator: if an item raised, the generator would leave behind a task that
    closes it."""

    __slots__ = ("_budget", "_items")

    def __init__(self, budget: YieldBudget, items: Iterator[T]) -> None:
        self._budget = budget
        self._items = items

    def __aiter__(self) -> _Each[T]:
        return self

    async def __anext__(self) -> T:
        for item in self._items:
            if self._budget.uses_up():
                await self._budget.pause()
            return item
        raise StopAsyncIteration
