"""Long polls: until something happens to a partition, or the time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiokproto.broker.metadata.topics import Partition


async def wait_for_change(partitions: Sequence[Partition], deadline: float) -> bool:
    """Wait until something happens to one of some partitions, but no longer than to a time of the loop's.

    Returns:
        Whether the time is over. Use this, not the clock: the loop may end a wait early by its clock's resolution, and
        a caller that waited for the rest would spin.
    """
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()
    over = False

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    def end() -> None:
        nonlocal over
        over = True
        wake()

    timer = loop.call_at(deadline, end)
    for partition in partitions:
        partition.watchers[wake] = None
    try:
        await woken
    finally:
        timer.cancel()
        for partition in partitions:
            partition.watchers.pop(wake, None)
    return over
