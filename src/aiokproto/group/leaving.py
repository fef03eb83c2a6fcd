"""Leaving a group when a client is closed, even if close() is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from aiokproto.runtime import create_task

_TURNS = 10
"""How many iterations of the event loop the member's cancelled tasks get to end."""


async def leave_group(leave: Coroutine[Any, Any, None], *, wait: bool) -> None:
    """Send the request to leave, and ``wait`` for the response, unless cancelled.

    Unless it waits, the request is sent only if that just means writing it to an open connection. Otherwise the member
    stays in the group until its session expires.
    """
    # This needs its own task: a cancellation must not take effect before the request is written.
    task = create_task(leave, name="aiokproto-group-leave")
    try:
        if wait:
            await asyncio.wait([task])
    finally:
        for _ in range(_TURNS):
            if task.done():
                break
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    if not task.cancelled():
        task.result()
