"""Yields to the event loop during long work."""

from __future__ import annotations

import asyncio

_BYTES = 1 << 20
"""Appending or reading this much takes about a millisecond."""


class YieldBudget:
    """Yields to the event loop once per megabyte, however many partitions a request has.

    Appends and reads are synchronous. Without this a Produce request for a thousand partitions would block every other
    connection, and heartbeats would be late.
    """

    def __init__(self) -> None:
        self._left = _BYTES

    async def spend(self, size: int) -> None:
        """Account for ``size`` bytes of work; yields when the budget is used up."""
        self._left -= size
        if self._left < 0:
            self._left = _BYTES
            await asyncio.sleep(0)
