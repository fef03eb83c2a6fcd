"""Event loops as slow machines and other systems give them: tests that pass on these do not depend on timing."""

from __future__ import annotations

import asyncio
import random

STEP = 1 / 64
STALL_SECONDS = 0.4
STALL_SHARE = 0.1


class CoarseLoop(asyncio.SelectorEventLoop):
    """A clock that steps by 16 ms, as that of Windows does. Timers within one step are due together."""

    def __init__(self) -> None:
        super().__init__()
        # Windows has it too: a timer may run up to one step before its time.
        self._clock_resolution = STEP

    def time(self) -> float:
        return super().time() // STEP * STEP


class StallingLoop(asyncio.SelectorEventLoop):
    """A loop that now and then does nothing for a while, as on a machine with other work to do.

    Nothing really waits: the clock leaps, so that timers are due before what happened meanwhile is seen. That is what a
    stalled process finds when it goes on.
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
