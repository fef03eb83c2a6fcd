"""A consumer with assigned partitions, which seeks and pauses at random, under faults. Its topic has transactions."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import TypeVar

from aiokproto import Consumer
from aiokproto.broker import Cluster
from aiokproto.errors import BootstrapError, DeadlineError, UnknownTopicError
from aiokproto.simulation import Simulation
from aiokproto.types import Record, TopicPartition
from tests.simulation.environment import Environment, check_no_task_is_left, in_time, run_within_turns
from tests.simulation.faults import Fault, carry_out, draw_some, stalled
from tests.simulation.writing import FIRST_TIME, Writer

BROKERS, PARTITIONS, UNTIL = 3, 4, 8.0
APIS = ("Fetch", "ListOffsets", "Metadata")
SLACK = 0.5
TIMEOUT = 2.0
"""The timeout of calls in virtual seconds. They may take ``SLACK`` longer."""
ALL_READ_WITHIN = 60.0
"""Virtual seconds after the last fault within which everything can be read."""
LARGEST_BATCH = 10_000

T = TypeVar("T")


class Reader:
    """The consumer, the next expected offset of each partition, and the records received."""

    def __init__(
        self, simulation: Simulation, writer: Writer, consumer: Consumer, faults: list[Fault], *, committed: bool
    ) -> None:
        self.passed: list[tuple[int, int, int]] = []
        self.seen: set[tuple[int, int]] = set()
        self._simulation = simulation
        self._random = simulation.random
        self._writer = writer
        self._consumer = consumer
        self._calm = not faults
        self._slack = SLACK + stalled(faults)
        self._committed = committed
        # None means unknown, because it depends on when the end of the log was looked up.
        self._next: dict[int, int | None] = dict.fromkeys(range(PARTITIONS), 0)
        self._least = dict.fromkeys(range(PARTITIONS), 0)
        self._paused: set[int] = set()

    async def act(self) -> None:
        """Perform one random action."""
        partition = self._random.randrange(PARTITIONS)
        where = TopicPartition("t", partition)
        match self._random.choice(("read", "read", "read", "seek", "pause", "resume", "ask")):
            case "read":
                await self.read()
            case "seek":
                self._seek(where)
            case "pause":
                self._consumer.pause(where)
                self._paused.add(partition)
            case "resume":
                self._consumer.resume(where)
                self._paused.discard(partition)
            case _:
                await self._ask(where)

    async def read(self) -> None:
        """Read in one of the three ways."""
        way = self._random.choice(("poll", "next", "batch"))
        try:
            if way == "poll":
                least, count = self._random.choice(((1, 1), (1, 5), (1, 500), (5, 20)))
                poll = self._consumer.poll(TIMEOUT * 1000, count, min_records=least)
                self._receive(await self._in_time(poll, "poll"))
            elif way == "next":
                # The call is cancelled when the time is over.
                self._receive([await self._in_time(asyncio.wait_for(anext(self._consumer), TIMEOUT), "anext")])
            else:
                batches = self._consumer.batches(decompress=self._random.random() < 0.5)
                batch = await self._in_time(asyncio.wait_for(anext(batches), TIMEOUT), "batch")
                self._receive(batch)
                if self._next[batch.partition] is not None:
                    self._next[batch.partition] = batch.next_offset
        except asyncio.TimeoutError:
            pass
        except UnknownTopicError:
            assert not self._calm, "without a fault, the topic is known"

    def everything(self) -> None:
        """Seek to the start of all partitions, and resume them."""
        self._consumer.resume()
        self._paused.clear()
        self._consumer.seek_to_beginning()
        self._next = dict.fromkeys(range(PARTITIONS), 0)
        self.seen.clear()

    def _seek(self, where: TopicPartition) -> None:
        log = self._writer.values[where.partition]
        last = max(log, default=0)
        self._least[where.partition] = 0
        match self._random.choice(("offset", "beginning", "end", "time")):
            case "offset":
                offset: int | None = self._random.randint(0, last)
                self._consumer.seek(where, offset or 0)
            case "beginning":
                offset = 0
                self._consumer.seek_to_beginning(where)
            case "end":
                offset = None
                if not self._committed:
                    self._least[where.partition] = last + 1
                self._consumer.seek_to_end(where)
            case _:
                # Records beyond the last stable offset don't count: a later time means "at the end".
                offsets = self._writer.stable(where.partition) or [0]
                time = self._random.randint(0, offsets[-1])
                offset = offsets[bisect_left(offsets, time)]
                self._consumer.seek_to_time(FIRST_TIME + 1000 * time - self._random.choice((0, 500)), where)
        self._next[where.partition] = offset

    async def _ask(self, where: TopicPartition) -> None:
        calls: dict[str, Callable[[], Awaitable[object]]] = {
            "position": lambda: self._consumer.position(where, timeout_ms=TIMEOUT * 1000),
            "beginning_offsets": lambda: self._consumer.beginning_offsets(where, timeout_ms=TIMEOUT * 1000),
            "end_offsets": lambda: self._consumer.end_offsets(where, timeout_ms=TIMEOUT * 1000),
            "offsets_for_times": lambda: self._consumer.offsets_for_times({where: FIRST_TIME}, TIMEOUT * 1000),
            "partitions_for_topic": lambda: self._consumer.partitions_for_topic("t", TIMEOUT * 1000),
        }
        name = self._random.choice(sorted(calls))
        try:
            found = await self._in_time(calls[name](), name)
        except (DeadlineError, UnknownTopicError):
            assert not self._calm, "without a fault, every question is answered"
            return
        expected = self._next[where.partition]
        if name == "position" and expected is not None:
            assert isinstance(found, int)
            # The consumer may already have skipped control records.
            self.passed.append((where.partition, min(expected, found), found))
            assert found >= expected, f"position {found}, and {expected} is next"
        elif name == "beginning_offsets":
            assert found == {where: 0}

    async def _in_time(self, call: Awaitable[T], name: str) -> T:
        return await in_time(call, name, TIMEOUT, self._slack)

    def _receive(self, records: Iterable[Record]) -> None:
        for record in records:
            number, offset = record.partition, record.offset
            assert number not in self._paused, f"{record} was handed out, and is paused"
            assert self._writer.values[number].get(offset) == record.value, f"{record} is not in the log"
            if self._committed:
                assert (number, offset) not in self._writer.aborted, f"{record} is not committed"
            expected = self._next[number]
            least = self._least[number] if expected is None else expected
            assert offset >= least, f"partition {number}: {offset} came, and {least} is next"
            if expected is not None:
                self.passed.append((number, expected, offset))
            self._next[number] = offset + 1
            self.seen.add((number, offset))


def schedule(seed: int) -> list[Fault]:
    return draw_some(seed, UNTIL, BROKERS, PARTITIONS, APIS)


def run(seed: int, faults: list[Fault]) -> Simulation:
    """Read under these faults. Raise AssertionError if a guarantee is violated."""
    return run_within_turns(seed, lambda simulation: _program(simulation, faults))


async def _program(simulation: Simulation, faults: list[Fault]) -> None:
    random = simulation.random
    committed = random.random() < 0.6
    async with Cluster(BROKERS, auto_create_topics=False) as cluster:
        await cluster.create_topic("t", PARTITIONS, replication=BROKERS)
        writer = Writer(random, cluster, "t", PARTITIONS)
        for partition in range(PARTITIONS):
            for _ in range(15):
                writer.write(partition)
        partition_bytes, buffer = random.choice((1000, 10_000)), random.choice((5000, 50_000))
        consumer = Consumer(
            bootstrap_servers=cluster.bootstrap_servers,
            # No offset is out of range here, so such an error would be a defect.
            auto_offset_reset="none",
            isolation_level="read_committed" if committed else "read_uncommitted",
            request_timeout_ms=2000,
            max_partition_fetch_bytes=partition_bytes,
            fetch_buffer_bytes=buffer,
            metadata_max_age_ms=random.choice((1000, 300_000)),
        )
        consumer.assign(*(("t", partition) for partition in range(PARTITIONS)))
        for partition in range(PARTITIONS):
            consumer.seek(("t", partition), 0)
        reader = Reader(simulation, writer, consumer, faults, committed=committed)
        happening = asyncio.create_task(carry_out(Environment(simulation, cluster, "t"), faults))
        writing = asyncio.create_task(_write(random, writer))
        try:
            try:
                await consumer.start()
            except BootstrapError:
                assert faults, "without a fault, brokers can be reached"
                return
            while simulation.time() < UNTIL:
                await reader.act()
                await asyncio.sleep(random.choice((0, 0, 0.01, 0.1)))
                held = sum(cursor.buffer.size for cursor in consumer._engine.assignment.cursors.values())
                # A broker with less than one partition's limit buffered gets another fetch of that size.
                assert held <= buffer + 2 * BROKERS * max(partition_bytes, LARGEST_BATCH), f"{held} bytes are buffered"
            await asyncio.gather(happening, writing)
            await _read_all(simulation, writer, reader, committed=committed)
        finally:
            happening.cancel()
            writing.cancel()
            began = simulation.time()
            await consumer.close(3000)
            assert simulation.time() - began <= 3 + SLACK, "closing ends in time"
        for partition, expected, offset in reader.passed:
            skipped = [at for at in range(expected, offset) if _is_visible(writer, partition, at, committed=committed)]
            assert not skipped, f"partition {partition}: {offset} came after {expected}, without {skipped}"
        check_no_task_is_left()


async def _write(random: Random, writer: Writer) -> None:
    for _ in range(60):
        writer.write(random.randrange(PARTITIONS))
        await asyncio.sleep(random.choice((0, 0.05, 0.2)))
    writer.end_all()


def _is_visible(writer: Writer, partition: int, offset: int, *, committed: bool) -> bool:
    return offset in writer.values[partition] and not (committed and (partition, offset) in writer.aborted)


async def _read_all(simulation: Simulation, writer: Writer, reader: Reader, *, committed: bool) -> None:
    wanted = {
        (partition, offset)
        for partition in range(PARTITIONS)
        for offset in writer.values[partition]
        if _is_visible(writer, partition, offset, committed=committed)
    }
    reader.everything()
    deadline = simulation.time() + ALL_READ_WITHIN
    while reader.seen != wanted:
        assert simulation.time() < deadline, f"{sorted(wanted - reader.seen)[:5]} were never handed out"
        await reader.read()
