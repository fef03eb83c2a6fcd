"""The thread in which batches are opened, so that the event loop does not stall."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


class OpeningThread:
    """One thread for all nodes: work is done in its order, and what one batch becomes is in memory at a time.

    Not the loop's default executor, which has many threads, and which the application may have filled.
    """

    def __init__(self) -> None:
        self._thread: ThreadPoolExecutor | None = None
        self._working = False

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Do some work behind what was given before. Cancelling the future does not end work that has begun."""
        # With the first large batch: most clusters never need it.
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="aiokproto-broker")
        return asyncio.get_running_loop().run_in_executor(self._thread, self._do, work)

    def _do(self, work: Callable[[], T]) -> T:
        self._working = True
        try:
            return work()
        finally:
            self._working = False

    def close(self) -> None:
        """Stop the thread. Work that is under way is not waited for."""
        if self._thread is not None:
            # Waiting for it would block the event loop; without any the thread ends at once.
            self._thread.shutdown(wait=not self._working, cancel_futures=True)
            self._thread = None
