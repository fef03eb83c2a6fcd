"""One piece of work for all who ask for the same thing at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from aiokproto.errors import ClientClosedError, DeadlineError

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SingleFlight(Generic[K, T]):
    """Runs at most one task per key. Who waits may leave; the work goes on for the others, and for who comes next."""

    def __init__(self) -> None:
        self._tasks: dict[K, asyncio.Task[T]] = {}
        self._closed = False

    async def run(
        self, key: K, work: Callable[[], Coroutine[Any, Any, T]], timeout: float, describe: Callable[[], str]
    ) -> T:
        """The result of the work for ``key``, started unless under way; raises what it raises.

        Raises:
            DeadlineError: Not done in ``timeout`` seconds; ``describe`` makes the text.
            ClientClosedError: :meth:`close` was called.
        """
        if self._closed:
            raise ClientClosedError("the client is closed")
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = asyncio.create_task(work())
            task.add_done_callback(lambda done: self._finished(key, done))
        await asyncio.wait((task,), timeout=max(timeout, 0))
        if not task.done():
            raise DeadlineError(describe())
        if task.cancelled():
            raise ClientClosedError("the client was closed")
        return task.result()

    async def close(self) -> None:
        """Cancel all work and wait until it has ended."""
        self._closed = True
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _finished(self, key: K, task: asyncio.Task[T]) -> None:
        self._tasks.pop(key, None)
        if not task.cancelled():
            # Looked at here, since all who waited may have left.
            task.exception()
