"""What a send costs when the producer knows very many topics."""

from __future__ import annotations

import asyncio

from benchmarks import loops
from benchmarks.loops import Asyncio, Producing
from benchmarks.work import Work

MESSAGES = 200_000
KNOWN_AT_ONCE = 500


def names(base: str, count: int) -> list[str]:
    return [f"{base}-{index}" for index in range(count)]


async def run(client: Asyncio, work: Work) -> None:
    """Write one record to every topic, so that all are known; then, under the meter, to one of them."""
    topics = names(work.topic, int(work.options["topics"]))
    async with client.producer(work, work.settings.linger_ms) as producer:
        for start in range(0, len(topics), KNOWN_AT_ONCE):
            await _know(producer, work, topics[start : start + KNOWN_AT_ONCE])
        topic, post = topics[-1], producer.post
        with work.meter:
            for count in work.chunks():
                posted = [await post(topic, value) for value in work.values(count)]
                await loops.settle(producer, work, posted)
    work.figures = {
        "CPU µs per message": work.meter.cpu / work.messages * 1e6,
        "wall µs": work.meter.wall / work.messages * 1e6,
    }


async def _know(producer: Producing, work: Work, topics: list[str]) -> None:
    await asyncio.gather(*(producer.send(topic, work.value()) for topic in topics))
    work.connecting += len(topics)
