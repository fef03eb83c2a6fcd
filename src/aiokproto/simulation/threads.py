"""Simulated threads: jobs that take virtual time, in pools that can be full."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

DEFAULT_WORKERS = 6
"""The number of threads in the loop's default executor, as on a machine with two cores."""


class _Pool:
    def __init__(self, default: bool, workers: int) -> None:
        self.default = default
        self.free = workers
        self.waiting: deque[Callable[[], None]] = deque()


class Threads:
    """Runs the jobs of executors in the simulation's only thread. Each job runs in one go, at the end of its virtual
    duration.

    Attributes:
        seconds: Minimum and maximum duration of a job, in virtual seconds.
    """

    def __init__(self, random: Random, seconds: tuple[float, float] = (0.0001, 0.005)) -> None:
        self.seconds = seconds
        self._random = random
        self._pools: dict[int | None, _Pool] = {}
        self._held = False
        self._default_held = False

    def hold(self, *, default_only: bool = False) -> None:
        """Don't start any jobs until :meth:`release`, as if all threads were busy.

        Args:
            default_only: Whether only the loop's default executor is busy.
        """
        self._held |= not default_only
        self._default_held = True

    def release(self) -> None:
        """End :meth:`hold`."""
        self._held = self._default_held = False
        for pool in list(self._pools.values()):
            self._start_waiting(pool)

    def run(
        self, loop: asyncio.AbstractEventLoop, executor: ThreadPoolExecutor | None, work: Callable[[], T]
    ) -> asyncio.Future[T]:
        """Run a job, like an event loop's ``run_in_executor``."""
        key = None if executor is None else id(executor)
        if key not in self._pools:
            self._pools[key] = _Pool(key is None, DEFAULT_WORKERS if executor is None else executor._max_workers)
        pool = self._pools[key]
        future: asyncio.Future[T] = loop.create_future()

        def start() -> None:
            pool.free -= 1
            loop.call_at(loop.time() + self._random.uniform(*self.seconds), finish)

        def finish() -> None:
            pool.free += 1
            if not future.cancelled():
                _complete(future, work)
            self._start_waiting(pool)

        pool.waiting.append(start)
        self._start_waiting(pool)
        return future

    def _start_waiting(self, pool: _Pool) -> None:
        held = self._default_held if pool.default else self._held
        while pool.waiting and pool.free and not held:
            pool.waiting.popleft()()


def _complete(future: asyncio.Future[Any], work: Callable[[], Any]) -> None:
    try:
        future.set_result(work())
    # As in real executors: a SystemExit or CancelledError must not be raised in the loop's thread.
    except BaseException as error:  # noqa: BLE001 - raised where the result is awaited
        future.set_exception(error)
