"""Calls that have to wait before they write, in the order in which they were made.

A call waits for the metadata of its topic, for room, or for its turn of the event loop. Whatever it waits for, no later
call may write to the topic before it: records are in the log in the order of the calls that wrote them, also when these
come from different tasks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

Call = asyncio.Future[None]


class AppendOrder:
    """The calls that wait, by topic.

    A call enters before it waits for anything, waits for what it needs beside the others, and then for its turn. The
    topic's first call has its turn until it leaves.
    """

    def __init__(self, changed: Callable[[str], None]) -> None:
        """``changed`` is called when the first call enters for a topic, and when the last has left."""
        self._changed = changed
        self._calls: dict[str, dict[Call, None]] = {}

    def waits(self, topic: str) -> bool:
        """Whether any call waits to write to a topic."""
        return topic in self._calls

    @contextmanager
    def entered(self, topic: str) -> Iterator[Callable[[], Awaitable[None]]]:
        """Take a place in the topic's order for as long as the block runs; what it gives waits for the turn.

        Cancelling that gives the place up.
        """
        call: Call = asyncio.get_running_loop().create_future()
        calls = self._calls.setdefault(topic, {})
        calls[call] = None
        if len(calls) == 1:
            call.set_result(None)
            self._changed(topic)

        async def turn() -> None:
            await call

        try:
            yield turn
        finally:
            del calls[call]
            if not calls:
                del self._calls[topic]
                self._changed(topic)
            else:
                first = next(iter(calls))
                if not first.done():
                    first.set_result(None)
