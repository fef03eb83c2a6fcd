"""Tasks and futures with the same hash in every run, so that sets of them have the same order."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

T = TypeVar("T")


class SimulatedFuture(asyncio.Future[T]):
    """The ``number``th future or task of its loop."""

    def __init__(self, number: int, loop: asyncio.AbstractEventLoop) -> None:
        self._number = number
        super().__init__(loop=loop)

    def __hash__(self) -> int:
        return self._number


class SimulatedTask(asyncio.Task[T]):
    """The ``number``th future or task of its loop, and without a name of its own named so: asyncio's own names count
    the tasks of the process."""

    def __init__(
        self,
        number: int,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        loop: asyncio.AbstractEventLoop,
        **options: Any,
    ) -> None:
        # Before the rest, which puts it into a set.
        self._number = number
        if options.get("name") is None:
            options["name"] = f"Task-{number}"
        super().__init__(coro, loop=loop, **options)

    def __hash__(self) -> int:
        return self._number
