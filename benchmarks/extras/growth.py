"""Whether memory grows: what a process takes after a tenth of very many messages and after all, written, then read."""

from __future__ import annotations

from benchmarks import loops
from benchmarks.loops import Asyncio
from benchmarks.work import CHUNK, Work, memory

MESSAGES = 10_000_000
MIB = 1 << 20


async def run(client: Asyncio, work: Work) -> None:
    with work.meter:
        await _produce(client, work)
        await _consume(client, work)


async def _produce(client: Asyncio, work: Work) -> None:
    async with client.producer(work, work.settings.linger_ms) as producer:
        await loops.connect(producer, work)
        tenth = work.messages // 10
        for count in work.chunks():
            posted = [await producer.post(work.topic, value) for value in work.values(count)]
            before = work.settled
            await loops.settle(producer, work, posted)
            if before < tenth <= work.settled:
                _note(work, f"producing, MiB at {tenth:,}")
        _note(work, f"at {work.messages:,}")


async def _consume(client: Asyncio, work: Work) -> None:
    """Read all again; these messages were counted when they were written."""
    async with client.consumer(work) as consumer:
        await consumer.assign()
        tenth, count = work.messages // 10, 0
        while count < work.messages:
            taken, _ = await consumer.take(CHUNK)
            if count < tenth <= count + taken:
                _note(work, f"consuming, MiB at {tenth:,}")
            count += taken
        _note(work, f"then at {work.messages:,}")


def _note(work: Work, label: str) -> None:
    work.figures[label] = memory("VmRSS") / MIB
