"""Waiting for an event or a time, whichever comes first."""

from __future__ import annotations

import asyncio


async def wait_until(event: asyncio.Event, until: float | None) -> None:
    """Wait for the event, at most until that loop time."""
    if until is None:
        await event.wait()
        return
    handle = asyncio.get_running_loop().call_at(until, event.set)
    try:
        await event.wait()
    finally:
        handle.cancel()
