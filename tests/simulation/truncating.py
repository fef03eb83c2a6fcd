"""A consumer of logs that lose records again and again (KIP-320), under faults. It keeps its positions between its
lives.

The consumer's view of a partition is what it has delivered, minus what it has reported as lost. The view must always be
a prefix of some log that the partition had, and equal the log in the end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from random import Random
from typing import Any

from aiokproto import Consumer
from aiokproto.broker import Cluster
from aiokproto.consumer import OffsetReset, ResetReason
from aiokproto.errors import BootstrapError, LogTruncationError, OffsetOutOfRangeError, UnknownTopicError
from aiokproto.simulation import Simulation
from aiokproto.types import OffsetAndMetadata, Record, TopicPartition
from tests.simulation.environment import Environment, run_within_turns, stored_batches, stored_records
from tests.simulation.faults import Fault, carry_out, draw_some

BROKERS, PARTITIONS, UNTIL = 3, 2, 10.0
APIS = ("OffsetForLeaderEpoch", "Fetch", "Metadata")
RELEASES = (None, None, "2.3", "2.6", "3.0")
"""A Fetch before 2.7 doesn't name the last epoch, and topics before 2.8 have no ids."""
ALL_READ_WITHIN = 60.0
OTHERS = ("lose_tail", "move_coordinator", "grow")
"""Kinds of faults that don't concern this workload."""


class View:
    """What the application believes to be in the partitions.

    Attributes:
        values: The values of each partition's records in order. The index is the offset.
        events: Reset events that haven't been applied.
        lost: How many records were reported as lost.
    """

    def __init__(self) -> None:
        self.values: list[list[bytes | None]] = [[] for _ in range(PARTITIONS)]
        self.events: list[deque[OffsetReset]] = [deque() for _ in range(PARTITIONS)]
        self.lost = 0

    def note(self, event: OffsetReset) -> None:
        self.events[event.partition.partition].append(event)
        self.catch_up()

    def receive(self, records: Iterable[Record]) -> None:
        for record in records:
            self.catch_up()
            view = self.values[record.partition]
            assert record.offset == len(view), f"{record.offset} came, and {len(view)} is next: {self.events}"
            view.append(record.value)
        self.catch_up()

    def catch_up(self) -> None:
        """Apply the events. One can happen while records are on their way to the application."""
        for number, events in enumerate(self.events):
            while events and events[0].position == len(self.values[number]):
                self.cut(number, events.popleft().offset)

    def cut(self, partition: int, offset: int) -> None:
        view = self.values[partition]
        assert offset <= len(view), f"{len(view)} is next, and reading continues at {offset}"
        self.lost += len(view) - offset
        del view[offset:]


def schedule(seed: int) -> list[Fault]:
    return [fault for fault in draw_some(seed, UNTIL, BROKERS, PARTITIONS, APIS) if fault.kind not in OTHERS]


def run(seed: int, faults: list[Fault]) -> Simulation:
    """Read under these faults. Raise AssertionError if a guarantee is violated."""
    return run_within_turns(seed, lambda simulation: _program(simulation, faults))


async def _program(simulation: Simulation, faults: list[Fault]) -> None:
    random = simulation.random
    async with Cluster(BROKERS, auto_create_topics=False, as_version=random.choice(RELEASES)) as cluster:
        await cluster.create_topic("t", PARTITIONS, replication=BROKERS)
        environment, view = Environment(simulation, cluster, "t"), View()
        options: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "auto_offset_reset": random.choice(("earliest", "none")),
            "on_offset_reset": view.note,
            "request_timeout_ms": 2000,
            "max_partition_fetch_bytes": random.choice((200, 100_000)),
            "metadata_max_age_ms": random.choice((1000, 300_000)),
        }
        happening = asyncio.create_task(carry_out(environment, faults))
        damaging = asyncio.create_task(_damage(simulation, environment))
        positions: dict[TopicPartition, OffsetAndMetadata] = {}
        try:
            while simulation.time() < UNTIL:
                positions = await _live(simulation, options, view, positions, random.uniform(0.5, UNTIL))
            await asyncio.gather(happening, damaging)
            await _read_all(simulation, cluster, options, view, positions)
        finally:
            happening.cancel()
            damaging.cancel()
        simulation.trace.note("lost", str(view.lost))


async def _damage(simulation: Simulation, environment: Environment) -> None:
    """Write, and occasionally lose the end of a log in an election. The log may or may not grow again."""
    random = simulation.random
    written = 0
    while simulation.time() < UNTIL:
        partition = random.randrange(PARTITIONS)
        what = random.choice(("write", "write", "write", "lose", "move"))
        if what == "write":
            for _ in range(random.choice((1, 3, 10))):
                written += 1
                environment.append(partition, b"%d" % written)
        elif what == "move" and len(environment.running()) > 1:
            await environment.cluster.move_leader("t", partition)
        elif what == "lose" and environment.cluster.leader("t", partition) is not None:
            _lose(random, environment, partition)
        await asyncio.sleep(random.choice((0, 0.01, 0.3)))


def _lose(random: Random, environment: Environment, partition: int) -> None:
    bases = [base for base, _ in stored_batches(environment.cluster, "t", partition)]
    if bases:
        environment.cluster.diverge_log("t", partition, random.choice(bases[-5:]))


async def _live(
    simulation: Simulation,
    options: dict[str, Any],
    view: View,
    positions: dict[TopicPartition, OffsetAndMetadata],
    seconds: float,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Read for a while, from positions that were stored. Return the positions to store."""
    consumer = _consumer(options, positions)
    until = simulation.time() + seconds
    try:
        await consumer.start()
        while simulation.time() < until:
            await _read(simulation.random, consumer, view)
            positions = consumer.positions() or positions
    except BootstrapError:
        await asyncio.sleep(0.5)
    finally:
        await consumer.close(3000)
    view.catch_up()
    assert not any(view.events), f"{view.events} do not fit what was delivered"
    return positions


def _consumer(options: dict[str, Any], positions: dict[TopicPartition, OffsetAndMetadata]) -> Consumer:
    consumer = Consumer(**options)
    partitions = [TopicPartition("t", number) for number in range(PARTITIONS)]
    consumer.assign(*partitions)
    for partition in partitions:
        consumer.seek(partition, positions.get(partition, 0))
    return consumer


async def _read(random: Random, consumer: Consumer, view: View) -> None:
    way, timeout = random.choice(("poll", "next", "batch")), random.choice((0.05, 1.0))
    try:
        if way == "poll":
            view.receive(await consumer.poll(timeout * 1000, random.choice((1, 5, 500))))
        elif way == "next":
            view.receive([await asyncio.wait_for(anext(consumer), timeout)])
        else:
            view.receive(await asyncio.wait_for(anext(consumer.batches()), timeout))
    except (asyncio.TimeoutError, UnknownTopicError):
        pass
    except LogTruncationError as error:
        offset = error.diverged or OffsetAndMetadata(0)
        consumer.seek(error.partition, offset)
        view.note(OffsetReset(error.partition, ResetReason.TRUNCATED, error.position.offset, offset.offset))
    except OffsetOutOfRangeError:
        # There is no epoch to request, so the consumer only knows that the log is shorter.
        consumer.seek_to_beginning()
        for number in range(PARTITIONS):
            view.cut(number, 0)


async def _read_all(
    simulation: Simulation,
    cluster: Cluster,
    options: dict[str, Any],
    view: View,
    positions: dict[TopicPartition, OffsetAndMetadata],
) -> None:
    logs = [[value for _, value in stored_records(cluster, "t", number)] for number in range(PARTITIONS)]
    deadline = simulation.time() + ALL_READ_WITHIN
    consumer = _consumer(options, positions)
    try:
        await consumer.start()
        while view.values != logs:
            assert simulation.time() < deadline, f"the logs are {logs}, and {view.values} was delivered"
            await _read(simulation.random, consumer, view)
    finally:
        await consumer.close(3000)
