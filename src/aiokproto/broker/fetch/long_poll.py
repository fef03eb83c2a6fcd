"""Long polls: waiting for an append or a new leader, with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.metadata.topics import Partition


def longest_wait(max_wait_ms: int, options: BrokerOptions) -> float:
    """Return for how many seconds a request may wait: as long as it asks, up to ``connections.max.idle.ms``.

    A client that is gone is noticed only when its response cannot be sent. It must not hold one of ``max.connections``
    for the 24 days that it can ask for; Kafka closes the connection after the same time, whatever waits there.
    """
    return min(max_wait_ms, options.number("connections.max.idle.ms")) / 1000


def count_changes(partitions: Iterable[Partition]) -> int:
    """Return how many appends and changes of leader the partitions had.

    A handler that paused after it looked at the partitions compares the count, because it must not wait for a change
    that has happened meanwhile.
    """
    return sum(partition.changes for partition in partitions)


async def wait_for_change(partitions: Sequence[Partition], deadline: float) -> bool:
    """Wait until one of some partitions has an append or a new leader, or until a deadline on the event loop's clock.

    If cancelled, no watcher is left behind.

    Returns:
        Whether the deadline has passed. Callers must use this instead of the clock: the loop can end a wait early by
        its clock's resolution, and a caller that waited for the remaining time would spin.
    """
    loop = asyncio.get_running_loop()
    # A future and callbacks instead of a task for each partition: thousands of waiting Fetch requests cost one future
    # each.
    woken: asyncio.Future[None] = loop.create_future()
    over = False

    def wake() -> None:
        if not woken.done():
            woken.set_result(None)

    def end() -> None:
        nonlocal over
        over = True
        wake()

    # The loop's clock, not the broker's: a client waits in real time for its response even if a test stops the broker's
    # time.
    timer = loop.call_at(deadline, end)
    for partition in partitions:
        partition.watchers[wake] = None
    try:
        await woken
    finally:
        timer.cancel()
        for partition in partitions:
            # wake() has removed it from the partition that called it only.
            partition.watchers.pop(wake, None)
    return over
