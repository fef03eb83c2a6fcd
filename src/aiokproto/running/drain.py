"""The wait for running calls at the end of a run."""

from __future__ import annotations

import asyncio


class Drain:
    """Ends when all calls have ended, after a time, or on :meth:`expire`."""

    def __init__(self) -> None:
        self._finished = asyncio.Event()
        self._expired = asyncio.Event()

    def finish(self) -> None:
        """All calls have ended."""
        self._finished.set()

    def expire(self) -> None:
        """Wait no longer."""
        self._expired.set()

    async def wait(self, seconds: float, *, expires: bool = True) -> bool:
        """Return whether all calls have ended, after at most so many seconds, or with ``expires`` on :meth:`expire`."""
        events = [self._finished, self._expired] if expires else [self._finished]
        waits = [asyncio.ensure_future(event.wait()) for event in events]
        try:
            await asyncio.wait(waits, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()
        return self._finished.is_set()
