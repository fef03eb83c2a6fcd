"""How long a message takes from a program that sends it to one that reads, with nothing else to do."""

from __future__ import annotations

import time

from benchmarks import loops
from benchmarks.loops import Asyncio
from benchmarks.work import Work

MESSAGES = 300


async def run(client: Asyncio, work: Work) -> None:
    """Write one message and wait until it is read, again and again; producer and consumer share the event loop."""
    async with client.producer(work, linger_ms=0) as producer, client.consumer(work) as consumer:
        await loops.connect(producer, work)
        await consumer.assign()
        # The message that connected the producer: with it in hand, the consumer is connected too.
        await _take(consumer)
        with work.meter:
            for value in work.values(work.messages):
                started = time.perf_counter()
                delivery = await producer.post(work.topic, value)
                await _take(consumer)
                work.latencies.append(time.perf_counter() - started)
                await loops.settle(producer, work, [delivery])


async def _take(consumer: loops.Consuming) -> None:
    while not (await consumer.take(1))[0]:
        pass
