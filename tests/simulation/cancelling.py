"""Cancels a call at its n-th suspension."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Awaitable, Generator
from typing import Any, TypeVar

T = TypeVar("T")


class Suspensions:
    """The number of suspensions of the last call."""

    def __init__(self) -> None:
        self.count = 0

    async def run(self, call: Awaitable[T], cancel_at: int | None = None) -> T:
        """Await a call. The running task is cancelled at suspension number ``cancel_at``, counted from 1."""
        self.count = 0
        result: T = await self._steps(call.__await__(), cancel_at)
        return result

    @types.coroutine
    def _steps(self, steps: Generator[Any, Any, T], cancel_at: int | None) -> Generator[Any, Any, T]:
        step = steps.send
        given: Any = None
        while True:
            try:
                waiting = step(given)
            except StopIteration as done:
                result: T = done.value
                return result
            self.count += 1
            if self.count == cancel_at:
                # The cancellation takes effect at the task's next suspension, which is the yield below.
                task = asyncio.current_task()
                assert task is not None
                task.cancel()
            try:
                given, step = (yield waiting), steps.send
            except BaseException as error:  # noqa: BLE001 - the call handles it
                given, step = error, steps.throw


async def cancelled(suspensions: Suspensions, call: Awaitable[object], at: int) -> bool:
    """Run a call in its own task, and cancel it at a suspension. Return whether it got that far, and was cancelled."""

    async def run() -> None:
        await suspensions.run(call, at)

    task = asyncio.create_task(run())
    await asyncio.wait((task,))
    if task.cancelled():
        return True
    task.result()
    return False
