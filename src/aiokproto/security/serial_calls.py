"""Calls that block for long, one after the other, in a thread that ends when there are none."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class SerialCalls:
    """Runs functions in a thread, one at a time.

    Not in the loop's own threads: some calls that take half a minute each would leave none for others, and
    ``asyncio.run`` would wait for them. This thread ends when nothing waits for it, and never keeps a process alive.
    For any number of event loops.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._running = False
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()

    async def call(self, function: Callable[[], T]) -> T:
        """Return what a function returns. Cancelling leaves a call that has begun to end by itself."""
        future: Future[T] = Future()
        with self._lock:
            if not self._running:
                threading.Thread(target=self._run, name=self._name, daemon=True).start()
                self._running = True
            self._waiting.append((future, function))
        return await asyncio.wrap_future(future)

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running = False
                    return
                future, function = self._waiting.popleft()
            if future.set_running_or_notify_cancel():
                try:
                    result = function()
                except BaseException as error:  # noqa: BLE001 - the caller's, whatever it is
                    future.set_exception(error)
                else:
                    future.set_result(result)
            # While this thread waits for the lock, or for its end, it keeps nothing.
            del future, function
