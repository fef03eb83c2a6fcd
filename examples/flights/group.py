"""Out of Kafka with a consumer group whose members come and go."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping

from rich.progress import Progress

from aiokproto import Consumer
from aiokproto.types import Record

NEWCOMER = "third (joins half-way)"


class Tally:
    """What the members of the group have read together.

    Half of each partition is kept for the time after the newcomer has joined, however long that takes: so all three
    members have something to read.
    """

    def __init__(self, sizes: Mapping[int, int]) -> None:
        self.sizes = sizes
        self.expected = sum(sizes.values())
        self.seen: set[tuple[int, int]] = set()
        self.carriers: Counter[str] = Counter()
        self.members: Counter[str] = Counter()
        self.total = 0
        self.half = asyncio.Event()
        self.joined = asyncio.Event()
        self.done = asyncio.Event()

    def add(self, member: str, record: Record) -> None:
        self.seen.add((record.partition, record.offset))
        self.carriers[(record.key or b"").decode()] += 1
        self.members[member] += 1
        self.total += 1
        if member == NEWCOMER:
            self.joined.set()
        if len(self.seen) * 2 >= self.expected:
            self.half.set()
        if len(self.seen) >= self.expected:
            self.done.set()

    def keeps_the_rest(self, record: Record) -> bool:
        """Whether what follows this record in its partition is kept for now."""
        # With less to read there may be nothing for the newcomer: its first record would never come.
        enough = min(self.sizes.values()) > 1
        return enough and not self.joined.is_set() and (record.offset + 1) * 2 >= self.sizes[record.partition]

    def again(self) -> int:
        """How many records were read more than once."""
        return self.total - len(self.seen)


async def member(name: str, bootstrap: str, topic: str, tally: Tally, leave: asyncio.Event) -> None:
    """Read until stopped. Processed records are committed before the partitions are reassigned."""
    async with Consumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=f"{topic}-report",
        auto_offset_reset="earliest",
        heartbeat_interval_ms=200,
    ) as consumer:
        going_on = asyncio.create_task(_go_on(consumer, tally))
        try:
            async for record in consumer:
                tally.add(name, record)
                if name != NEWCOMER and tally.keeps_the_rest(record):
                    consumer.pause((topic, record.partition))
                if leave.is_set():
                    break
        finally:
            going_on.cancel()
            await asyncio.gather(going_on, return_exceptions=True)


async def _go_on(consumer: Consumer, tally: Tally) -> None:
    """Read the rest once the newcomer is in."""
    await tally.joined.wait()
    consumer.resume(*consumer.paused())


async def read_all(bootstrap: str, topic: str, sizes: Mapping[int, int], progress: Progress) -> Tally:
    """Two members begin, a third joins half-way, then the first leaves; ends when all records were seen.

    Args:
        bootstrap: The broker.
        topic: What they read.
        sizes: Partition → how many records it has.
        progress: Where to show how far they are.
    """
    tally = Tally(sizes)
    leave, stay = asyncio.Event(), asyncio.Event()
    tasks = [
        asyncio.create_task(member("first (leaves)", bootstrap, topic, tally, leave)),
        asyncio.create_task(member("second", bootstrap, topic, tally, stay)),
        asyncio.create_task(_third(bootstrap, topic, tally, leave, stay)),
        asyncio.create_task(_watch(tally, progress)),
    ]
    done = asyncio.create_task(tally.done.wait())
    try:
        while not done.done():
            finished, _ = await asyncio.wait([done, *tasks], return_when=asyncio.FIRST_COMPLETED)
            for task in finished - {done}:
                task.result()
                tasks.remove(task)
    finally:
        for task in [done, *tasks]:
            task.cancel()
        await asyncio.gather(done, *tasks, return_exceptions=True)
    return tally


async def _third(bootstrap: str, topic: str, tally: Tally, leave: asyncio.Event, stay: asyncio.Event) -> None:
    await tally.half.wait()
    reading = asyncio.create_task(member(NEWCOMER, bootstrap, topic, tally, stay))
    try:
        await tally.joined.wait()
        leave.set()
        await reading
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


async def _watch(tally: Tally, progress: Progress) -> None:
    bar = progress.add_task("consume", total=tally.expected)
    try:
        while True:
            progress.update(bar, completed=len(tally.seen))
            await asyncio.sleep(0.1)
    finally:
        progress.update(bar, completed=len(tally.seen))
