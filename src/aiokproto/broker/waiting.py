"""Long polls: until something happens to a partition, or the time is over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiokproto.broker.topics import Partition


async def until_news(partitions: Sequence[Partition], seconds: float) -> None:
    """Wait until something happens to one of some partitions, but no longer than ``seconds``."""
    loop = asyncio.get_running_loop()
    woken: asyncio.Future[None] = loop.create_future()

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    timer = loop.call_later(seconds, wake)
    for partition in partitions:
        partition.watchers.add(wake)
    try:
        await woken
    finally:
        timer.cancel()
        for partition in partitions:
            partition.watchers.discard(wake)
