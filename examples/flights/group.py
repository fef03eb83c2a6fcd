"""Out of Kafka with a consumer group whose members come and go."""

from __future__ import annotations

import asyncio
from collections import Counter

from rich.progress import Progress

from aiokproto import Consumer

NEWCOMER = "third (joins half-way)"


class Tally:
    """What the members of the group have read together."""

    def __init__(self, expected: int) -> None:
        self.expected = expected
        self.seen: set[tuple[int, int]] = set()
        self.carriers: Counter[str] = Counter()
        self.members: Counter[str] = Counter()
        self.total = 0
        self.half = asyncio.Event()
        self.joined = asyncio.Event()
        self.done = asyncio.Event()

    def add(self, member: str, partition: int, offset: int, key: bytes | None) -> None:
        self.seen.add((partition, offset))
        self.carriers[(key or b"").decode()] += 1
        self.members[member] += 1
        self.total += 1
        if member == NEWCOMER:
            self.joined.set()
        if self.total * 2 >= self.expected:
            self.half.set()
        if len(self.seen) >= self.expected:
            self.done.set()

    def gently(self) -> bool:
        """Whether to wait a little: while the newcomer is on its way in, something must be left for it to read."""
        late = self.total * 4 >= self.expected * 3
        return self.half.is_set() and not self.joined.is_set() and (late or self.total % 100 == 0)

    def again(self) -> int:
        """How many records were read more than once."""
        return self.total - len(self.seen)


async def member(name: str, bootstrap: str, topic: str, tally: Tally, leave: asyncio.Event) -> None:
    """Read until told to leave. What was read is committed before the partitions go to somebody else."""
    async with Consumer(
        topic,
        bootstrap_servers=bootstrap,
        group_id=f"{topic}-report",
        auto_offset_reset="earliest",
        heartbeat_interval_ms=200,
    ) as consumer:
        async for record in consumer:
            tally.add(name, record.partition, record.offset, record.key)
            if tally.gently():
                await asyncio.sleep(0.01)
            if leave.is_set():
                break


async def read_all(bootstrap: str, topic: str, expected: int, progress: Progress) -> Tally:
    """Two members begin, a third joins half-way, then the first leaves; ends when all records were seen."""
    tally = Tally(expected)
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
