"""A FIFO queue per topic of calls that cannot append at once.

A call waits for its topic's metadata, for memory, or for other tasks to run. No later call appends to the topic before
it: records are in the log in the order of the calls, even of calls in different tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiokproto.producer.buffer import Buffer

Waiter = asyncio.Future[None]
"""Done when the call is the first of its topic."""


class AppendOrder:
    """The waiting calls by topic.

    A call enters the queue before it waits for anything. Calls wait for metadata concurrently; only then does each wait
    until it is the first, which it stays until it leaves.
    """

    def __init__(self, buffer: Buffer) -> None:
        """``buffer`` learns when the first call enters a topic's queue, and when the last has left."""
        self._buffer = buffer
        # A dict as an ordered set: a cancelled call leaves from the middle in constant time.
        self._calls: dict[str, dict[Waiter, None]] = {}

    def waits(self, topic: str) -> bool:
        """Whether a call waits to append to this topic."""
        return topic in self._calls

    @contextmanager
    def entered(self, topic: str) -> Iterator[Waiter]:
        """Queue up behind the topic's earlier calls while the block runs; await the value to be the first of them.

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
            self._buffer.order_changed(topic)
        try:
            # One task alone awaits it, so cancelling that task cancels nobody else's future.
            yield call
        finally:
            del calls[call]
            if not calls:
                del self._calls[topic]
                self._buffer.order_changed(topic)
            else:
                # Also reached when a call leaves from the middle; then the first one is done already.
                first = next(iter(calls))
                if not first.done():
                    first.set_result(None)
