"""How long a client blocks the event loop: the gaps of a task that is due every millisecond."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from benchmarks import loops
from benchmarks.extras.loaded import post_paced
from benchmarks.extras.pace import TICK, pace
from benchmarks.loops import Asyncio
from benchmarks.work import Work

BYTES_PER_SECOND = 50_000_000
SECONDS = 3
MESSAGES = SECONDS * BYTES_PER_SECOND // 1024


class Ticker:
    """The longest time between two turns, by the clock and in CPU time of the loop's thread.

    Where cores are few the first has the time in it that other processes took; the second is the loop's own.
    """

    def __init__(self) -> None:
        self.longest = 0.0
        self.longest_cpu = 0.0

    async def run(self) -> None:
        """Tick until cancelled."""
        clock, cpu = time.perf_counter(), time.thread_time()
        while True:
            await asyncio.sleep(TICK)
            now, used = time.perf_counter(), time.thread_time()
            self.longest, self.longest_cpu = max(self.longest, now - clock), max(self.longest_cpu, used - cpu)
            clock, cpu = now, used


@asynccontextmanager
async def _ticking(work: Work) -> AsyncIterator[None]:
    """Measure what happens inside; the figures go into the work."""
    ticker = Ticker()
    ticking = asyncio.create_task(ticker.run())
    try:
        with work.meter:
            yield
    finally:
        ticking.cancel()
        await asyncio.wait([ticking])
    work.figures |= {
        "longest gap ms": ticker.longest * 1e3,
        "busy ms": ticker.longest_cpu * 1e3,
        "MB/s": work.messages * work.size / work.meter.wall / 1e6,
    }


async def produce(client: Asyncio, work: Work) -> None:
    async with client.producer(work, work.settings.linger_ms) as producer:
        await loops.connect(producer, work)
        async with _ticking(work):
            await post_paced(producer, work, BYTES_PER_SECOND / work.size)


async def consume(client: Asyncio, work: Work) -> None:
    async with client.consumer(work) as consumer:
        async with _ticking(work):
            await consumer.assign()
            count = size = 0
            async for due in pace(work.messages, BYTES_PER_SECOND / work.size):
                while due:
                    taken, length = await consumer.take(due)
                    due, count, size = due - taken, count + taken, size + length
        work.read(count, size)
