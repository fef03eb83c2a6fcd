"""Event loops as on slow machines and other systems: tests that pass on these don't depend on timing."""

from __future__ import annotations

import asyncio
import random

STEP = 1 / 64
STALL_SECONDS = 0.4
STALL_SHARE = 0.1


class CoarseLoop(asyncio.SelectorEventLoop):
    """A loop whose clock steps by 16 ms, as the clock of Windows does. Timers within one step are due together."""

    def __init__(self) -> None:
        super().__init__()
        # A timer may run up to one step before its time, on Windows too.
        self._clock_resolution = STEP

    def time(self) -> float:
        return super().time() // STEP * STEP


class StallingLoop(asyncio.SelectorEventLoop):
    """A loop that occasionally does nothing for a while, as on a busy machine.

    Nothing really waits: the clock leaps, so timers are due before the loop sees what happened meanwhile. A stalled
    process finds the same when it continues.
    """

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._random = random.Random(seed)
        self._stalled = 0.0

    def time(self) -> float:
        return super().time() + self._stalled

    def _run_once(self) -> None:
        if self._random.random() < STALL_SHARE:
            self._stalled += self._random.uniform(0, STALL_SECONDS)
        super()._run_once()  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
