"""Members of a group that call handlers, under faults, and their guarantees: `Consumer.run`."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

from aiokproto import Consumer
from aiokproto.broker import Cluster
from aiokproto.consumer import PermanentError, Retry
from aiokproto.errors import KafkaError
from aiokproto.simulation import Simulation
from aiokproto.types import Record, TopicPartition
from tests.simulation.consuming import (
    ALL_READ_WITHIN,
    APIS,
    BROKERS,
    CONFIG,
    OWN_TASKS,
    PARTITIONS,
    STRATEGIES,
    UNTIL,
    check_commits,
    missing_records,
    produce,
)
from tests.simulation.environment import Environment, check_no_task_is_left, run_within_turns
from tests.simulation.faults import Fault, carry_out, draw_some, stalled
from tests.simulation.member import SLACK

KEYS = (None, *(b"%d" % number for number in range(5)))


class BrokenHandlerError(Exception):
    """The error of a handler that isn't retried: it ends its run."""


class Ledger:
    """What happened to the records, over all members.

    Attributes:
        done: Offsets that were handled to completion, or are dead letters, by partition.
        times: How often each record was handled to completion.
        running: The members that run handlers of a partition.
        forgiven: How many records may be handled again, because they were in flight when a run ended or partitions were
            revoked.
    """

    def __init__(self) -> None:
        self.done: dict[int, set[int]] = defaultdict(set)
        self.times: dict[tuple[int, int], int] = defaultdict(int)
        self.running: dict[int, set[Member]] = defaultdict(set)
        self.forgiven = 0

    def finish(self, record: Record) -> None:
        """Record that a record is handled, or a dead letter."""
        self.done[record.partition].add(record.offset)
        self.times[record.partition, record.offset] += 1


class Member:
    """A consumer whose records are handled by a handler that is slow, fails, hangs or ends the run."""

    def __init__(self, simulation: Simulation, ledger: Ledger, faults: list[Fault], options: dict[str, Any]) -> None:
        self._random = random = simulation.random
        self._simulation = simulation
        self._ledger = ledger
        self._faults = faults
        self._options = options
        self._slack = SLACK + stalled(faults)
        self._breaks = random.choice((0, 0, 0, 0.02))
        self._fails = random.choice((0, 0.1, 0.4))
        self._slow = random.choice((0.0, 0.01, 0.1))
        self._running: dict[tuple[int, object], int] = {}
        self._last: dict[tuple[int, object], int] = {}
        self._most = random.choice((1, 3, 16))
        self._pending = random.choice((4, 20, 1000))
        self._order: Any = random.choice(("partition", "key", "none"))
        self._drain = random.choice((0.0, 0.5, 2.0))
        self._batch = random.choice((None, None, 2, 7)) if self._order != "key" else None
        self._batch_wait: Any = random.choice((0, 30)) if self._batch else 0
        self._stopped = False
        self.consumer = Consumer(**options)
        self.consumer.subscribe("t", on_assigned=self._moved, on_revoked=self._moved)

    async def live(self, until: float) -> None:
        """Start, run until that virtual time in several runs, and close."""
        consumer, time = self.consumer, self._simulation.time
        await consumer.start()
        try:
            while time() < until and not self._stopped:
                await self._one_run(min(until, time() + self._random.uniform(0.2, 6.0)))
        finally:
            self._forgive()
            began = time()
            await consumer.close(8000)
            assert time() - began <= 8 + self._slack, "closing ends in time"

    def stop(self) -> None:
        """Close soon."""
        self._stopped = True
        self.consumer.stop_run()

    def successor(self) -> Member:
        """Return another member like this one."""
        return Member(self._simulation, self._ledger, self._faults, self._options)

    async def _one_run(self, until: float) -> None:
        self._last.clear()
        batch: Any = self._batch
        handler: Any = self._handle if batch is None else self._handle_all
        run = asyncio.create_task(
            self.consumer.run(
                handler,
                batch=batch,
                batch_wait_ms=self._batch_wait,
                concurrency=self._most,
                order=self._order,
                retry=Retry(attempts=self._random.choice((1, 3)), backoff_ms=20, max_backoff_ms=200, on=self._again),
                dead_letter=self,
                max_pending_records=self._pending,
                handler_timeout_ms=self._random.choice((None, 500)),
                drain_timeout_ms=self._drain * 1000,
            )
        )
        end = self._random.choice(("stop", "cancel", "close"))
        while not run.done() and self._simulation.time() < until and not self._stopped:
            await asyncio.wait([run], timeout=min(0.2, until - self._simulation.time()) + 0.001)
            self._check()
        self._forgive()
        began = self._simulation.time()
        if end == "cancel":
            run.cancel()
        elif end == "stop":
            self.consumer.stop_run()
        else:
            await self.consumer.close(8000)
            self._stopped = True
        await asyncio.wait([run])
        # Closing may take as long as the drain, one more second for cancelled handlers, and the commit.
        allowed = 8.0 + self._drain + self._slack
        assert self._simulation.time() - began <= allowed, "the end of a run is bounded"
        assert not self._running, f"the run has ended, and handlers run: {self._running}"
        if not run.cancelled() and (error := run.exception()) is not None:
            assert isinstance(error, BrokenHandlerError | KafkaError), error

    def _check(self) -> None:
        status = self.consumer.run_status()
        if status is None:
            return
        # Calls from before a seek or a revocation still count, besides the calls after it.
        most = self._pending + self._most * (self._batch or 1)
        assert status.pending <= most, f"{status.pending} records are pending"
        assert status.running <= self._most

    def _forgive(self) -> None:
        """Allow records that are in flight to be handled again: pending ones, and finished ones among them."""
        status = self.consumer.run_status()
        if status is not None and status.active:
            self._ledger.forgiven += self._pending * max(len(status.partitions), 1)

    async def _handle(self, record: Record) -> None:
        ordered = self._order == "partition" or (self._order == "key" and record.key is not None)
        within: object = record.offset if not ordered else record.key if self._order == "key" else None
        lane = (record.partition, within)
        assert lane not in self._running, f"two of {lane} are handled at once"
        if ordered:
            last = self._last.get(lane, -1)
            assert record.offset >= last, f"{record.offset} of {lane} comes after {last}"
            self._last[lane] = record.offset
        self._running[lane] = record.offset
        others = self._ledger.running[record.partition] - {self}
        assert not others or self._faults, f"two members handle records of partition {record.partition}"
        self._ledger.running[record.partition].add(self)
        try:
            assert len(self._running) <= self._most
            chance = self._random.random()
            if chance < self._breaks:
                raise BrokenHandlerError
            if chance < self._breaks + self._fails:
                raise self._random.choice((ValueError, PermanentError))("the handler fails")
            if self._slow and self._random.random() < 0.5:
                await asyncio.sleep(self._random.uniform(0, self._slow) * self._random.choice((1, 1, 1, 20)))
            elif self._random.random() < 0.3:
                await asyncio.sleep(0)
        finally:
            del self._running[lane]
            if not any(partition == record.partition for partition, _ in self._running):
                self._ledger.running[record.partition].discard(self)
        self._ledger.finish(record)

    async def _handle_all(self, records: list[Record]) -> None:
        assert len(records) <= (self._batch or 0)
        for done, record in enumerate(records):
            try:
                await self._handle(record)
            except BaseException:
                # The batch is handled again from its first record on, or record by record.
                self._ledger.forgiven += done
                for lane in [each for each in self._last if each[0] == record.partition]:
                    del self._last[lane]
                raise

    def _again(self, error: Exception) -> bool:
        return not isinstance(error, BrokenHandlerError)

    async def write(
        self, record: Record, error: BaseException, *, group: str | None = None, delivery_count: int | None = None
    ) -> None:
        """Take a dead letter."""
        if isinstance(error, BrokenHandlerError):
            raise error
        await asyncio.sleep(self._random.choice((0, 0.01)))
        self._ledger.finish(record)

    async def _moved(self, partitions: list[TopicPartition]) -> None:
        """Handle partitions that come or go: the order starts again, and records in flight may be repeated."""
        numbers = {partition.partition for partition in partitions}
        self._last = {lane: offset for lane, offset in self._last.items() if lane[0] not in numbers}
        self._ledger.forgiven += self._pending * len(numbers)


def schedule(seed: int) -> list[Fault]:
    return draw_some(seed, UNTIL, BROKERS, PARTITIONS, APIS)


def run(seed: int, faults: list[Fault], **options: Any) -> Simulation:
    """Run handlers under these faults, with more options. Raise AssertionError if a guarantee is violated."""
    return run_within_turns(seed, lambda simulation: _program(simulation, faults, options))


async def _program(simulation: Simulation, faults: list[Fault], more: dict[str, Any]) -> None:
    random, ledger = simulation.random, Ledger()
    async with Cluster(BROKERS, auto_create_topics=False, config=CONFIG) as cluster:
        await cluster.create_topic("t", PARTITIONS, replication=BROKERS)
        options = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": "g",
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": 300,
            "session_timeout_ms": 3000,
            "heartbeat_interval_ms": 300,
            "max_poll_interval_ms": 20_000,
            "request_timeout_ms": 2000,
            "partition_assignment_strategy": random.choice(STRATEGIES),
            **more,
        }

        async def come_and_go() -> None:
            await asyncio.sleep(random.uniform(0, UNTIL / 2))
            for _ in range(random.randint(1, 2)):
                until = simulation.time() + random.uniform(0.5, UNTIL / 2)
                await Member(simulation, ledger, faults, options).live(until)
                check_commits(cluster, ledger.done)

        happening = asyncio.create_task(carry_out(Environment(simulation, cluster, "t"), faults))
        try:
            await asyncio.gather(produce(cluster, random, KEYS), *(come_and_go() for _ in range(random.randint(1, 3))))
            await happening
            check_commits(cluster, ledger.done)
            await _handle_the_rest(simulation, cluster, ledger, Member(simulation, ledger, faults, options))
        finally:
            happening.cancel()
        check_commits(cluster, ledger.done)
        repeated = sum(times - 1 for times in ledger.times.values() if times)
        assert repeated <= ledger.forgiven, f"{repeated} records were handled again, {ledger.forgiven} were in flight"
        check_no_task_is_left(OWN_TASKS)


async def _handle_the_rest(simulation: Simulation, cluster: Cluster, ledger: Ledger, last: Member) -> None:
    """One more member handles the remaining records."""
    deadline = simulation.time() + ALL_READ_WITHIN
    living = asyncio.create_task(last.live(deadline))
    try:
        while missing := missing_records(cluster, ledger.done):
            if living.done():
                living.result()
                assert simulation.time() < deadline, f"{missing} were never handled"
                # The member has closed its consumer by itself, so another one takes its place.
                last = last.successor()
                living = asyncio.create_task(last.live(deadline))
            await asyncio.wait([living], timeout=0.5)
    finally:
        last.stop()
        await living
