"""What code of the application can do wrong, and what a call of the library that leads to it ends with."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import Any, NamedTuple

from aiokproto.runtime import create_task


class Case(Enum):
    """What a callback does wrong, once; its next calls are well-behaved."""

    RAISES = "raises an exception"
    OTHERS = "raises a `CancelledError` that is none of its task"
    HANGS = "does not return"
    SWALLOWS = "does not return, and swallows its cancellation"
    ITSELF = "cancels the task that calls it"
    WRONG = "returns the wrong type"
    MUTE = "raises an exception whose text cannot be had"
    ENDS = "raises `SystemExit` or `KeyboardInterrupt`"


class BugError(Exception):
    """What the application raises; none of the library's."""


class MuteError(BugError):
    """An exception whose text cannot be had."""

    def __str__(self) -> str:
        raise ValueError("no text")

    __repr__ = __str__


class Mute:
    """A value whose text cannot be had."""

    __str__ = __repr__ = MuteError.__str__


class HeldError(Exception):
    """A call did not end until it was cancelled."""


class StuckError(Exception):
    """A call did not even end when it was cancelled."""


class Misbehaving:
    """A function of the application that misbehaves in its first call.

    Attributes:
        calls: How often it was called.
    """

    def __init__(self, case: Case, good: Callable[..., Any], wrong: Any, times: int = 1) -> None:
        self.calls = 0
        self._case = case
        self._good = good
        self._wrong = wrong
        self._times = times
        self._released = asyncio.Event()

    def plain(self, *arguments: Any, **named: Any) -> Any:
        """The function, if it is not awaited."""
        self.calls += 1
        if self.calls > self._times:
            return self._good(*arguments, **named)
        if self._case is Case.WRONG:
            return self._wrong() if callable(self._wrong) else self._wrong
        if self._case is Case.ITSELF:
            cancel_itself()
            return self._good(*arguments, **named)
        raise {
            Case.RAISES: BugError("a bug"),
            Case.MUTE: MuteError(),
            Case.OTHERS: asyncio.CancelledError(),
            Case.ENDS: SystemExit(3),
        }[self._case]

    async def awaited(self, *arguments: Any, **named: Any) -> Any:
        """The function, if it is awaited."""
        if self.calls >= self._times or self._case in (Case.RAISES, Case.MUTE, Case.WRONG, Case.ENDS):
            return self.plain(*arguments, **named)
        self.calls += 1
        if self._case is Case.OTHERS:
            waiting = asyncio.get_running_loop().create_future()
            waiting.cancel()
            await waiting
        if self._case is Case.ITSELF:
            cancel_itself()
            await asyncio.sleep(0)
        while not self._released.is_set():
            try:
                await self._released.wait()
            except asyncio.CancelledError:
                if self._case is not Case.SWALLOWS:
                    raise
        return self._good(*arguments, **named)

    def started(self, *arguments: Any, **named: Any) -> Any:
        """The function, if its result is awaited."""
        if self._case is Case.WRONG and self.calls < self._times:
            return self.plain(*arguments, **named)
        return self.awaited(*arguments, **named)

    def release(self) -> None:
        """Let what does not return do so."""
        self._released.set()


def cancel_itself() -> None:
    """Cancel the current task, if there is one."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        # A thread runs it.
        return
    if task is not None:
        task.cancel()


async def a_coroutine() -> None:
    """What a function returns that should not be a coroutine function."""


class Outcome(NamedTuple):
    """The outcome of a misbehaving callback.

    Attributes:
        error: What the call raised that led to it; None if it returned.
        again: What the same call raised afterwards.
    """

    error: BaseException | None
    again: BaseException | None = None


async def attempt(call: Awaitable[object], within: float = 20.0) -> BaseException | None:
    """Await a call in a task of its own; return what it raised."""
    ended: list[BaseException | None] = []

    async def run() -> None:
        try:
            await call
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test looks at it
            ended.append(error)
        else:
            # Keep it here, because asyncio drops the result of a task that is cancelled in its last step.
            ended.append(None)

    # Create it as the library's own tasks are, because before Python 3.11 other tasks can't tell whether they were
    # cancelled.
    task = create_task(run())
    await asyncio.wait([task], timeout=within)
    held = not task.done()
    if held:
        task.cancel()
        await asyncio.wait([task], timeout=within)
    if not task.done():
        return StuckError()
    if ended and isinstance(ended[0], SystemExit):
        raise ended[0]
    return HeldError() if held else ended[0]
