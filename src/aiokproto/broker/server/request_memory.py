"""The memory of all requests that are received or served (``queued.max.request.bytes``)."""

from __future__ import annotations

import asyncio
from collections import deque


class RequestMemory:
    """A budget of bytes, for which connections wait in order.

    As in Kafka's ``SimpleMemoryPool``, a request is received while any of it is left, and may take more than that: one
    that is larger than the budget must not wait for ever.

    Args:
        limit: In bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self, size: int) -> None:
        """Take so many bytes, once any are left. Cancelling gives up the place."""
        if self._waiting or self._used >= self._limit:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                # Its turn had come, and is the next one's now.
                self._begin_next()
                raise
        self._used += size
        self._begin_next()

    def release(self, size: int) -> None:
        """Give back what was taken."""
        self._used -= size
        self._begin_next()

    def _begin_next(self) -> None:
        # One only: it takes its bytes before another one may look.
        while self._waiting and self._used < self._limit:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
