"""Share one task among all callers that need its result at the same time (Go's ``singleflight``)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

from aiokproto.errors import ClientClosedError, DeadlineError, KafkaError, copied
from aiokproto.runtime import create_task

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SingleFlight(Generic[K, T]):
    """Runs at most one task per key.

    A caller that is cancelled or times out does not cancel the task for the other callers.
    """

    def __init__(self) -> None:
        self._tasks: dict[K, asyncio.Task[T]] = {}
        self._close_error: KafkaError | None = None

    async def run(
        self, key: K, work: Callable[[], Coroutine[Any, Any, T]], timeout: float, describe: Callable[[], str]
    ) -> T:
        """Return the result of the task for ``key``, starting it if it isn't running; raise what it raises.

        Raises:
            DeadlineError: No result in ``timeout`` seconds; ``describe`` returns the message.
            KafkaError: :meth:`close` was called with this error.
        """
        if self._close_error is not None:
            raise copied(self._close_error)
        task = self._tasks.get(key)
        if task is None:
            task = self._tasks[key] = create_task(work(), name=f"aiokproto {key}")
            task.add_done_callback(lambda done: self._finished(key, done))
        # wait_for would cancel the task on timeout. With shield, a cancelled task would look like a cancelled caller.
        await asyncio.wait((task,), timeout=max(timeout, 0))
        if not task.done():
            raise DeadlineError(describe())
        if task.cancelled():
            raise copied(self._close_error or ClientClosedError("a task of the client was cancelled"))
        return task.result()

    def close(self, reason: KafkaError) -> None:
        """Cancel all tasks; every call raises ``reason``."""
        # Keep the first reason, as the client does.
        self._close_error = self._close_error or reason
        for task in self._tasks.values():
            task.cancel()

    async def wait_closed(self) -> None:
        """Wait until all tasks have ended."""
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    def _finished(self, key: K, task: asyncio.Task[T]) -> None:
        # Do this in a callback, not in `run`: all callers of `run` may be gone, and the next call must start a new
        # task.
        self._tasks.pop(key, None)
        if not task.cancelled():
            # Retrieve it: if no caller is waiting, asyncio would log an exception that was never retrieved.
            task.exception()
