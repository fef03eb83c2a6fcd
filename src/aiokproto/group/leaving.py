"""Leaving a group when a client is closed, and also when close() is cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from aiokproto.runtime import create_task

_TURNS = 10
"""Iterations of the event loop in which the member's tasks, which were cancelled, let go of the coordinator."""


async def leave_group(leave: Coroutine[Any, Any, None], *, wait: bool) -> None:
    """Send the request to leave, and ``wait`` for the response, unless cancelled.

    Without the wait nothing is sent if that takes more than writing it to an open connection: the member then stays in
    the group until its session expires.
    """
    # It needs a task of its own, because a cancellation must not take effect before the request is written.
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
