"""Latency under load: awaited sends of one producer, while another writes in the same event loop at a fixed rate."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Any

from benchmarks import loops
from benchmarks.extras.pace import pace
from benchmarks.loops import Asyncio, Producing
from benchmarks.work import CHUNK, Work

RATE = 10_000
SECONDS = 4
MESSAGES = RATE * SECONDS


async def run(client: Asyncio, work: Work) -> None:
    """Send and wait, again and again, for as long as the other producer writes."""
    async with (
        client.producer(work, work.settings.linger_ms) as background,
        client.producer(work, linger_ms=0) as producer,
    ):
        await loops.connect(background, work)
        await loops.connect(producer, work)
        with work.meter:
            load = asyncio.create_task(post_paced(background, work, RATE))
            while not load.done():
                started = time.perf_counter()
                await producer.send(work.topic, work.value())
                work.latencies.append(time.perf_counter() - started)
            await load
        work.settled += len(work.latencies)
    work.figures["messages/s"] = work.messages / work.meter.wall


async def post_paced(producer: Producing, work: Work, rate: float) -> None:
    """Post all messages at a rate; acknowledgements are looked at some thousands behind."""
    ahead: list[Awaitable[Any]] = []
    behind: list[Awaitable[Any]] = []
    async for due in pace(work.messages, rate):
        for value in work.values(due):
            ahead.append(await producer.post(work.topic, value))
        if len(ahead) >= CHUNK:
            await loops.settle(producer, work, behind)
            behind, ahead = ahead, []
    await loops.settle(producer, work, [*behind, *ahead])
