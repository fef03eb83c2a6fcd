"""Timeouts, deadlines, and interruptions of calls, none of which swallows other cancellations.

``timeout`` and ``timeout_at`` are asyncio's, with a backport for Python 3.10.

A timeout cancels its task and turns that cancellation into a ``TimeoutError``. If something else cancels the task at
the same time, the coroutine sees one ``CancelledError`` for both. The task has to count cancellations, or the timeout
would mistake the other cancellation for its own: the task would go on, and a caller that waits for it to end would wait
forever. Python tasks count since 3.11 (``Task.cancelling``). On 3.10 only this library's own tasks do
(:func:`aiokproto.runtime.create_task`); in a task of the application, a timeout hides a cancellation.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from asyncio import CancelledError
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, TypeVar

from aiokproto.errors import DeadlineError

__all__ = [
    "CancelledError",
    "Interruptible",
    "Task",
    "Timeout",
    "apart",
    "deadline_at",
    "in_task",
    "is_cancelled",
    "timeout",
    "timeout_at",
    "wait_until",
]

log = logging.getLogger("aiokproto")

T = TypeVar("T")

_CANCELLED_WITHIN = 1.0
"""How many seconds to wait for a cancelled function of the application to end."""


def is_cancelled() -> bool:
    """Return whether the current task was cancelled. If not, a CancelledError comes from whatever the task awaited.

    Before Python 3.11, the application's tasks can't report that, so every CancelledError counts as a cancellation of
    the task.
    """
    cancelling = getattr(asyncio.current_task(), "cancelling", None)
    return cancelling is None or cancelling() > 0


def in_task() -> bool:
    """Return whether a task is running, as opposed to a coroutine that is being closed."""
    try:
        return asyncio.current_task() is not None
    except RuntimeError:
        return False


async def apart(awaitable: Awaitable[T], what: str, drop: Callable[[T], object] = lambda result: None) -> T:
    """Await something of the application in a separate task.

    A cancellation inside of that task doesn't affect the caller. If the caller is cancelled, it cancels the function
    and waits a second for it to end. If the function swallows the cancellation, the caller stops waiting.

    Args:
        awaitable: The result of a function of the application.
        what: The function's name, for the log.
        drop: Called with the result if it arrives after the caller was cancelled.

    Raises:
        BaseException: Whatever the function raised. A CancelledError may come from the function itself.
    """
    task = asyncio.ensure_future(awaitable)
    try:
        await asyncio.wait((task,))
    except asyncio.CancelledError:

        def ended(done: asyncio.Future[T]) -> None:
            if not done.cancelled() and done.exception() is None:
                drop(done.result())

        task.add_done_callback(ended)
        task.cancel()
        await asyncio.wait((task,), timeout=_CANCELLED_WITHIN)
        if not task.done():
            log.error("%s does not end although it is cancelled, and is left alone", what)
        raise
    return task.result()


if sys.version_info >= (3, 11):
    from asyncio import Task, Timeout, timeout, timeout_at
else:

    class Task(asyncio.Task[T]):
        """Counts the requests to cancel it, as Python 3.11 does."""

        def __init__(
            self, coro: Coroutine[Any, Any, T], *, loop: asyncio.AbstractEventLoop, name: str | None = None
        ) -> None:
            self._cancelling = 0
            super().__init__(coro, loop=loop, name=name)

        def cancel(self, msg: Any | None = None) -> bool:
            requested = super().cancel(msg)
            self._cancelling += requested
            return requested

        def cancelling(self) -> int:
            return self._cancelling

        def uncancel(self) -> int:
            self._cancelling -= 1
            return self._cancelling

    class Timeout:
        """A backport of ``asyncio.Timeout`` (Python 3.11)."""

        def __init__(self, when: float | None) -> None:
            self._when = when
            self._task: asyncio.Task[Any] | None = None
            self._timer: asyncio.Handle | None = None
            self._expired = False
            self._before = 0

        def expired(self) -> bool:
            return self._expired

        def reschedule(self, when: float | None) -> None:
            # `_task` is the task that entered the block; this method may be called from another task.
            assert self._task is not None, "entered, and not left"
            self._when = when
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if when is None or self._expired:
                return
            loop = asyncio.get_running_loop()
            due = when <= loop.time()
            self._timer = loop.call_soon(self._expire) if due else loop.call_at(when, self._expire)

        async def __aenter__(self) -> Timeout:
            self._task = asyncio.current_task()
            if self._task is None:
                raise RuntimeError("a timeout is used outside of a task")
            self._before = self._task.cancelling() if isinstance(self._task, Task) else 0
            self.reschedule(self._when)
            return self

        async def __aexit__(
            self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
        ) -> None:
            task, self._task = self._task, None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if not self._expired:
                return
            others = task.uncancel() - self._before if isinstance(task, Task) else 0
            if others <= 0 and kind is asyncio.CancelledError:
                raise asyncio.TimeoutError from error

        def _expire(self) -> None:
            assert self._task is not None, "the timer ends with the scope"
            self._timer = None
            self._expired = True
            self._task.cancel()

    def timeout_at(when: float | None) -> Timeout:
        return Timeout(when)

    def timeout(delay: float | None) -> Timeout:
        return Timeout(None if delay is None else asyncio.get_running_loop().time() + delay)


async def wait_until(event: asyncio.Event, at: float | None) -> None:
    """Wait until an event is set.

    If nothing else has set it by ``at`` (s, the loop's clock; None for no limit), set it then.

    It doesn't use ``asyncio.wait_for``: before Python 3.12 that swallows a cancellation that coincides with the event,
    so a task that is cancelled only once would never end. A timer that sets the event is also cheaper than a timeout.
    """
    if at is None:
        await event.wait()
        return
    timer = asyncio.get_running_loop().call_at(at, event.set)
    try:
        await event.wait()
    finally:
        timer.cancel()


@asynccontextmanager
async def deadline_at(at: float, describe: Callable[[], str]) -> AsyncIterator[None]:
    """Raise ``DeadlineError(describe())`` if the body has not ended at ``at`` (s, the loop's clock).

    ``describe`` is called only on expiry, so the message can report the progress so far.
    """
    scope = timeout_at(at)
    try:
        async with scope:
            yield
    except asyncio.TimeoutError as error:
        # The body itself can raise TimeoutError, for a different deadline. If so, raise it unchanged.
        if not scope.expired():
            raise
        raise DeadlineError(describe()) from error


class Interruptible:
    """Lets one call make other calls raise, wherever they are suspended in :meth:`scope`."""

    def __init__(self) -> None:
        self._scopes: set[Timeout] = set()

    @asynccontextmanager
    async def scope(self, error: Callable[[], Exception]) -> AsyncIterator[None]:
        """Raise ``error()`` if :meth:`interrupt` is called while the body waits."""
        scope = timeout_at(None)
        try:
            async with scope:
                self._scopes.add(scope)
                try:
                    yield
                finally:
                    self._scopes.discard(scope)
        except asyncio.TimeoutError as timeout:
            if not scope.expired():
                raise
            raise error() from timeout.__cause__

    def interrupt(self) -> int:
        """Interrupt all scopes, and return how many there were. Their tasks raise the next time they run."""
        scopes, self._scopes = self._scopes, set()
        now = asyncio.get_running_loop().time()
        for scope in scopes:
            scope.reschedule(now)
        return len(scopes)
