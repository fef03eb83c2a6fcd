"""Long work in an event loop that others want too."""

from __future__ import annotations

import asyncio

_BYTES = 1 << 20
"""What takes about a millisecond to append or to read."""


class YieldBudget:
    """Gives others their turn after every so many bytes, however many partitions a request is about."""

    def __init__(self) -> None:
        self._left = _BYTES

    async def spend(self, size: int) -> None:
        """Bytes that were just worked on."""
        self._left -= size
        if self._left < 0:
            self._left = _BYTES
            await asyncio.sleep(0)
