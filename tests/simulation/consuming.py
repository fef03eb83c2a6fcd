"""Consumers in a group under faults, and what they have promised."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable
from random import Random
from typing import Any, TypeVar

from aiokproto import Consumer, Producer
from aiokproto.broker import Cluster
from aiokproto.errors import CommitError, DeadlineError
from aiokproto.simulation import Simulation
from aiokproto.types import Record, TopicPartition
from tests.simulation.faults import Fault, carry_out, draw
from tests.simulation.world import World, stored_records

BROKERS, PARTITIONS, UNTIL = 3, 4, 12.0
APIS = (
    "Heartbeat",
    "JoinGroup",
    "SyncGroup",
    "OffsetCommit",
    "OffsetFetch",
    "Fetch",
    "ListOffsets",
    "FindCoordinator",
    "Metadata",
)
STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")
RECORDS = 120
SLACK = 1.0
"""Virtual seconds that a call may take beyond its deadline."""
ALL_READ_WITHIN = 180.0
"""Virtual seconds after the last fault within which a group has read all there is."""

OWN_TASKS = ("aiokproto-consumer", "aiokproto-fetch", "aiokproto-heartbeat", "aiokproto-locate")

T = TypeVar("T")


class Ledger:
    """What the members of a group were given, and what they did with it.

    Attributes:
        processed: Offsets that some member has finished, by partition.
        deliveries: How often each record was handed out.
        owners: Who reads a partition, by the callbacks: assigned, and not yet revoked or lost.
    """

    def __init__(self) -> None:
        self.processed: dict[int, set[int]] = defaultdict(set)
        self.deliveries: dict[tuple[int, int], int] = defaultdict(int)
        self.owners: dict[int, set[Member]] = defaultdict(set)


class Member:
    """One consumer, from its start to its end.

    Attributes:
        held: What its callbacks say that it reads.
        next: The offset that has to come next of each partition in ``held``, once one has come.
    """

    def __init__(self, simulation: Simulation, ledger: Ledger, faults: list[Fault], options: dict[str, Any]) -> None:
        self.held: set[int] = set()
        self.next: dict[int, int] = {}
        self._simulation = simulation
        self._ledger = ledger
        self._calm = not faults
        self._slack = SLACK + sum(fault.seconds for fault in faults if fault.kind == "stall")
        self._by_itself: bool = options["enable_auto_commit"]
        self._callback_seconds = simulation.random.choice((0, 0, 0.5))
        self._unfinished: list[Record] = []
        self._stopped = False
        self.consumer = Consumer(**options)
        self.consumer.subscribe("t", on_assigned=self._on_assigned, on_revoked=self._on_revoked, on_lost=self._on_lost)

    async def live(self, until: float, seconds_a_record: float) -> None:
        """Read, process and commit until that virtual time; then close."""
        random = self._simulation.random
        await self.consumer.start()
        try:
            while self._simulation.time() < until and not self._stopped:
                timeout = random.choice((0.1, 1.0))
                self._finish()
                for record in await self._in_time(
                    self.consumer.poll(timeout * 1000, random.choice((1, 5, 500))), timeout, "poll"
                ):
                    self._receive(record)
                await asyncio.sleep(seconds_a_record * len(self._unfinished))
                if not self._by_itself:
                    await self._commit()
        finally:
            self._finish()
            await self._in_time(self.consumer.close(8000), 8.0, "close")
            assert not self.held, f"closed, and {self.held} were never revoked"

    def stop(self) -> None:
        """Close soon."""
        self._stopped = True

    async def _commit(self) -> None:
        self._finish()
        try:
            await self._in_time(self.consumer.commit(timeout_ms=2000), 2.0, "commit")
        except (CommitError, DeadlineError):
            assert not self._calm, "without a fault, commits work"

    async def _in_time(self, call: Awaitable[T], seconds: float, name: str) -> T:
        began = self._simulation.time()
        try:
            return await call
        finally:
            took = self._simulation.time() - began
            # What a callback takes is the user's own.
            allowed = seconds + self._slack + 2 * self._callback_seconds
            assert took <= allowed, f"{name} took {took:.1f} s, {seconds:g} were given"

    def _receive(self, record: Record) -> None:
        assert record.partition in self.held, f"{record} was handed out, and is not assigned"
        expected = self.next.get(record.partition, record.offset)
        assert record.offset == expected, f"partition {record.partition}: {record.offset} came, not {expected}"
        self.next[record.partition] = record.offset + 1
        self._ledger.deliveries[record.partition, record.offset] += 1
        self._unfinished.append(record)

    def _finish(self) -> None:
        for record in self._unfinished:
            self._ledger.processed[record.partition].add(record.offset)
        self._unfinished = []

    async def _on_assigned(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            number = partition.partition
            others = self._ledger.owners[number]
            assert not others or not self._calm, f"partition {number} is read by two members"
            assert number not in self.held, f"partition {number} was assigned twice"
            self.held.add(number)
            others.add(self)
        await asyncio.sleep(self._callback_seconds)

    async def _on_revoked(self, partitions: list[TopicPartition]) -> None:
        await asyncio.sleep(self._callback_seconds)
        self._give_up(partitions)

    async def _on_lost(self, partitions: list[TopicPartition]) -> None:
        assert not self._calm, "without a fault, nothing is lost"
        await self._on_revoked(partitions)

    def _give_up(self, partitions: list[TopicPartition]) -> None:
        for partition in partitions:
            number = partition.partition
            assert number in self.held, f"partition {number} was revoked or lost, and was not assigned"
            self.held.remove(number)
            self.next.pop(number, None)
            self._ledger.owners[number].discard(self)


def schedule(seed: int) -> list[Fault]:
    random = Random(f"{seed}/faults")
    return [draw(random, UNTIL, BROKERS, PARTITIONS, APIS) for _ in range(random.choice((0, 1, 2, 3, 5)))]


def run(seed: int, faults: list[Fault]) -> Simulation:
    """Consume under these faults; raises AssertionError where a promise is broken."""
    simulation = Simulation(seed)
    simulation.run(_program(simulation, faults))
    return simulation


async def _program(simulation: Simulation, faults: list[Fault]) -> None:
    random, ledger = simulation.random, Ledger()
    async with Cluster(BROKERS, config={"group.min.session.timeout.ms": 500}) as cluster:
        await cluster.create_topic("t", PARTITIONS, replication=BROKERS)
        options = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": "g",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": random.random() < 0.5,
            "auto_commit_interval_ms": 300,
            "session_timeout_ms": 3000,
            "heartbeat_interval_ms": 300,
            "max_poll_interval_ms": 20_000,
            "request_timeout_ms": 2000,
            "partition_assignment_strategy": random.choice(STRATEGIES),
        }

        def member(number: int) -> Member:
            static = {"group_instance_id": f"static-{number}"} if random.random() < 0.2 else {}
            return Member(simulation, ledger, faults, {**options, **static})

        async def come_and_go(number: int) -> None:
            await asyncio.sleep(random.uniform(0, UNTIL / 2))
            for life in range(random.randint(1, 2)):
                until = simulation.time() + random.uniform(0.5, UNTIL / 2)
                await member(10 * number + life).live(until, random.choice((0, 0.01, 0.1)))

        happening = asyncio.create_task(carry_out(World(simulation, cluster, "t"), faults))
        try:
            await asyncio.gather(
                _produce(cluster, random), *(come_and_go(number) for number in range(random.randint(1, 4)))
            )
            await happening
            _check_commits(cluster, ledger)
            await _read_the_rest(simulation, cluster, ledger, member(99))
        finally:
            happening.cancel()
        _check_commits(cluster, ledger)
        if not faults:
            twice = sorted(where for where, count in ledger.deliveries.items() if count > 1)
            assert not twice, f"without a fault, nothing is handed out twice: {twice}"
        left = [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith(OWN_TASKS)]
        assert not left, f"closed, and still running: {left}"


async def _produce(cluster: Cluster, random: Random) -> None:
    async with Producer(
        bootstrap_servers=cluster.bootstrap_servers, request_timeout_ms=2000, delivery_timeout_ms=60_000
    ) as producer:
        for number in range(RECORDS):
            await producer.send("t", b"%d" % number, partition=random.randrange(PARTITIONS))
            await asyncio.sleep(random.choice((0, 0.01, 0.1)))


async def _read_the_rest(simulation: Simulation, cluster: Cluster, ledger: Ledger, last: Member) -> None:
    """One more member reads what the others have left."""
    deadline = simulation.time() + ALL_READ_WITHIN
    living = asyncio.create_task(last.live(deadline, 0))
    try:
        while missing := _missing(cluster, ledger):
            assert not living.done(), f"{missing} were never processed"
            await asyncio.wait([living], timeout=0.5)
    finally:
        if living.done():
            living.result()
        last.stop()
        await living


def _missing(cluster: Cluster, ledger: Ledger) -> list[tuple[int, int]]:
    return [
        (partition, offset)
        for partition in range(PARTITIONS)
        for offset, _ in stored_records(cluster, "t", partition)
        if offset not in ledger.processed[partition]
    ]


def _check_commits(cluster: Cluster, ledger: Ledger) -> None:
    """What is committed, is processed."""
    group = cluster._running.groups.entry("g")
    for (_, partition), committed in (group.offsets if group else {}).items():
        unprocessed = set(range(committed.offset)) - ledger.processed[partition]
        assert not unprocessed, f"{partition}: {committed.offset} is committed, without {sorted(unprocessed)}"
