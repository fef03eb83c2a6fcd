"""A FIFO queue per topic of calls that cannot append at once.

A call waits for its topic's metadata, for memory, or for other tasks to run. No later call appends to the topic before
it: records are in the log in the order of the calls, even of calls in different tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

Waiter = asyncio.Future[None]
"""Done when the call is the first of its topic."""


class AppendOrder:
    """The waiting calls by topic.

    A call enters the queue before it waits for anything. Calls wait for metadata concurrently; only then does each wait
    until it is the first, which it stays until it leaves.
    """

    def __init__(self, changed: Callable[[str], None]) -> None:
        """``changed(topic)`` is called when the first call enters a topic's queue, and when the last has left."""
        self._changed = changed
        # A dict as an ordered set: a cancelled call leaves from the middle in constant time.
        self._calls: dict[str, dict[Waiter, None]] = {}

    def waits(self, topic: str) -> bool:
        """Whether a call waits to append to this topic."""
        return topic in self._calls

    @contextmanager
    def entered(self, topic: str) -> Iterator[Callable[[], Awaitable[None]]]:
        """Hold a place in the topic's queue while the block runs. The value, when called, waits until it is the first.

        Cancelling leaves the queue, and lets the next call proceed.
        """
        call: Waiter = asyncio.get_running_loop().create_future()
        calls = self._calls.setdefault(topic, {})
        calls[call] = None
        # The first is at its turn at once; it still has to wait for metadata or memory.
        # guard: the calls of a new topic keep their order -> True
        if len(calls) == 1:
            call.set_result(None)
            # From now on the synchronous path is closed to this topic, or a later record would overtake this one.
            self._changed(topic)

        async def turn() -> None:
            # Awaited by one task only, the one that entered: cancelling it cancels no one else's future.
            await call

        try:
            yield turn
        finally:
            del calls[call]
            if not calls:
                del self._calls[topic]
                self._changed(topic)
            else:
                # Also reached when a call leaves from the middle; then the first one is done already.
                first = next(iter(calls))
                if not first.done():
                    first.set_result(None)
