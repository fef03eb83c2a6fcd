"""Long polls: waiting for an append or a new leader, with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.metadata.topics import Partition


def longest_wait(max_wait_ms: int, options: BrokerOptions) -> float:
    """Return how long a request may wait (s): ``max_wait_ms``, but at most ``connections.max.idle.ms``.

    The broker notices that a client is gone only when it cannot send the response. Such a client must not occupy one of
    ``max.connections`` for the 24 days that ``max_wait_ms`` allows. Kafka closes the connection after the same time,
    even if a request is waiting.
    """
    return min(max_wait_ms, options.number("connections.max.idle.ms")) / 1000


def count_changes(partitions: Iterable[Partition]) -> int:
    """Return how many appends and changes of leader the partitions have had.

    A handler that paused after looking at the partitions compares the counts, because it must not wait for a change
    that has already happened.
    """
    return sum(partition.changes for partition in partitions)


async def wait_for_change(partitions: Sequence[Partition], deadline: float) -> bool:
    """Wait until one of the partitions has an append or a new leader, or until a deadline on the event loop's clock.

    No watcher is left behind, even if the wait is cancelled.

    Returns:
        Whether the deadline has passed. Callers must use this instead of comparing times: the loop can end a wait
        early, by up to its clock's resolution, and a caller that then waited for the remaining time would spin.
    """
    loop = asyncio.get_running_loop()
    # There may be thousands of waiting Fetch requests, so each uses one future with callbacks instead of a task per
    # partition.
    woken: asyncio.Future[None] = loop.create_future()
    over = False

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    def end() -> None:
        nonlocal over
        over = True
        wake()

    # The deadline is on the loop's clock, because a client waits in real time even if a test stops the broker's clock.
    timer = loop.call_at(deadline, end)
    for partition in partitions:
        partition.watchers[wake] = None
    try:
        await woken
    finally:
        timer.cancel()
        for partition in partitions:
            # The partition that called wake() has removed it, but the other partitions haven't.
            partition.watchers.pop(wake, None)
    return over
