"""Long work in slices, between which everyone else has a turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable

PAUSE = 0.01
"""Between two slices (s): about as long as one takes, so that all of this work has half of the time at most."""


class Turns:
    """Does work in slices, one at a time and in turn, however much of it there is."""

    def __init__(self) -> None:
        self._waiting: dict[Hashable, Callable[[], bool]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, key: Hashable, work: Callable[[], bool]) -> None:
        """Add work, unless there is some with this key. It is called until it returns True."""
        self._waiting.setdefault(key, work)
        if self._timer is None:
            self._schedule()

    def close(self) -> None:
        """Drop all work."""
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(PAUSE, self._run)

    def _run(self) -> None:
        self._timer = None
        key = next(iter(self._waiting))
        work = self._waiting.pop(key)
        try:
            if not work():
                self._waiting[key] = work
        finally:
            # Also after an error, which is the event loop's to report: it must not end the work of others.
            if self._waiting:
                self._schedule()
