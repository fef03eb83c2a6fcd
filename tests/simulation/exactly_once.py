"""Exactly-once sessions under faults: the committed output is the input, each record once.

Members come and go, die without closing, and stall beyond their timeouts. The group rebalances in all ways.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from aiokproto import Consumer, ExactlyOnce, Producer
from aiokproto.broker import Cluster
from aiokproto.errors import FencedError, KafkaError, TransactionAbortedError
from aiokproto.producer import Transaction
from aiokproto.simulation import Simulation
from aiokproto.types import Record
from tests.simulation.consuming import BROKERS, CONFIG, PARTITIONS, PROTOCOLS, produce
from tests.simulation.environment import Environment, check_no_task_is_left, run_within_turns
from tests.simulation.faults import WITH_TRANSACTIONS, Fault, carry_out, draw_some
from tests.simulation.request_faults import REFUSALS, TRANSACTIONAL_REFUSALS
from tests.simulation.transaction_log import committed_values, hanging

UNTIL = 15.0
RECORDS = 60
APIS = (
    "EndTxn",
    "TxnOffsetCommit",
    "AddOffsetsToTxn",
    "AddPartitionsToTxn",
    "InitProducerId",
    "Produce",
    "Heartbeat",
    "JoinGroup",
    "SyncGroup",
    "OffsetFetch",
    "Fetch",
    "FindCoordinator",
    "ConsumerGroupHeartbeat",
)
STRATEGIES = ("range", "cooperative-sticky", "cooperative-sticky")
RELEASES = (None, None, "3.9")
ALL_DONE_WITHIN = 240.0
"""Virtual seconds after the last fault within which everything is processed: timeouts of members that have died, and
backoffs."""
CLOSE = 20.0
"""Virtual seconds in which a session closes: both clients have deadlines."""

CODES = {**REFUSALS, **TRANSACTIONAL_REFUSALS}


class Member:
    """One session, from its start to its end."""

    def __init__(self, simulation: Simulation, cluster: Cluster, number: int, options: dict[str, object]) -> None:
        self.random = simulation.random
        self._simulation = simulation
        self._batch = self.random.choice((1, 5, 100))
        self._unreliable = self.random.random() < 0.5
        static = {"group_instance_id": f"static-{number}"} if self.random.random() < 0.2 else {}
        servers = cluster.bootstrap_servers
        consumer = Consumer("t", bootstrap_servers=servers, **{**options, **static})  # type: ignore[arg-type]
        producer = Producer(
            bootstrap_servers=servers,
            transactional_id=f"copy-{number}",
            transaction_timeout_ms=3000,
            request_timeout_ms=2000,
            default_api_timeout_ms=6000,
            delivery_timeout_ms=6000,
            close_timeout_ms=8000,
            linger_ms=0,
        )
        self._producer, self._consumer = producer, consumer
        self.session = ExactlyOnce(consumer, producer)

    async def live(self, until: float) -> None:
        """Copy until that time, then leave in one of many ways."""
        way = self.random.choice(("stop", "stop", "break", "raise", "cancel", "die"))
        try:
            await self.session.start()
            work = self.session.run(self._copy, max_records=self._batch) if way != "break" else self._loop(until)
            running = asyncio.create_task(work)
            await asyncio.wait([running], timeout=max(until - self._simulation.time(), 0))
            if way == "stop":
                self.session.stop()
                await asyncio.wait([running], timeout=10.0)
            elif way == "die":
                # No request follows, neither an abort nor one that leaves the group.
                await asyncio.gather(self._producer._cluster.close(0), self._consumer._engine.cluster.close(0))
            running.cancel()
            await asyncio.wait([running])
            if not running.cancelled() and (error := running.exception()) is not None:
                raise error
        except (KafkaError, ZeroDivisionError):
            # The session has ended. The next one starts from the committed offsets.
            pass
        finally:
            began = self._simulation.time()
            try:
                await self.session.close()
            except KafkaError:
                pass
            took = self._simulation.time() - began
            assert took <= CLOSE, f"closing took {took:.1f} s"

    async def copy_the_rest(self) -> None:
        """Copy until stopped."""
        self._unreliable = False
        async with self.session:
            await self.session.run(self._copy, max_records=self._batch)

    async def _loop(self, until: float) -> None:
        while self._simulation.time() < until:
            async for records, txn in self.session.batches(self._batch):
                if self.random.random() < 0.3:
                    # The loop is left in the middle of a batch.
                    await self._copy(records[: len(records) // 2], txn)
                    break
                await self._copy(records, txn)

    async def _copy(self, records: list[Record], txn: Transaction) -> None:
        for record in records:
            problem = self.random.random() if self._unreliable else 1.0
            if problem < 0.01:
                raise ZeroDivisionError
            if problem < 0.02:
                raise TransactionAbortedError("the application gives up this batch")
            if problem < 0.03:
                await txn.abort()
                return
            if problem < 0.05:
                # The pause may be longer than the timeout of the transaction, the session or polls.
                await asyncio.sleep(self.random.choice((0.5, 4.0, 9.0)))
            await txn.post("out", record.value, partition=self.random.randrange(PARTITIONS))


def schedule(seed: int) -> list[Fault]:
    return draw_some(seed, UNTIL, BROKERS, PARTITIONS, APIS, weights=WITH_TRANSACTIONS, refusals=CODES)


def run(seed: int, faults: list[Fault]) -> Simulation:
    """Copy a topic under these faults. Raise AssertionError if a guarantee is violated."""
    return run_within_turns(seed, lambda simulation: _program(simulation, faults))


async def _program(simulation: Simulation, faults: list[Fault]) -> None:
    random = simulation.random
    config = {
        **CONFIG,
        "transaction.state.log.num.partitions": 2,
        "offsets.topic.num.partitions": 2,
    }
    release = random.choice(RELEASES)
    async with Cluster(BROKERS, auto_create_topics=False, config=config, as_version=release) as cluster:
        await cluster.create_topic("t", PARTITIONS, replication=BROKERS)
        await cluster.create_topic("out", PARTITIONS, replication=BROKERS)
        # The consumer protocol came with Kafka 4.0.
        protocols = PROTOCOLS["classic" if release else random.choice(tuple(PROTOCOLS))]
        strategy = random.choice(STRATEGIES)
        options: dict[str, object] = {
            "group_id": "g",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
            "session_timeout_ms": 3000,
            "heartbeat_interval_ms": 300,
            "max_poll_interval_ms": 8000,
            "request_timeout_ms": 2000,
        }

        def member(number: int) -> Member:
            protocol = protocols[number % len(protocols)]
            own = {"partition_assignment_strategy": strategy} if protocol == "classic" else {}
            return Member(simulation, cluster, number, {**options, "group_protocol": protocol, **own})

        async def come_and_go(number: int) -> None:
            await asyncio.sleep(random.uniform(0, UNTIL / 2))
            for _ in range(random.randint(1, 3)):
                until = simulation.time() + random.uniform(0.3, UNTIL / 2)
                await member(number).live(until)

        happening = asyncio.create_task(carry_out(Environment(simulation, cluster, "t"), faults))
        try:
            members = (come_and_go(number) for number in range(random.randint(2, 4)))
            await asyncio.gather(produce(cluster, random, count=RECORDS), *members)
            await happening
            await _copy_the_rest(simulation, cluster, member(99))
        finally:
            happening.cancel()
        _check(cluster)
        check_no_task_is_left()


async def _copy_the_rest(simulation: Simulation, cluster: Cluster, last: Member) -> None:
    deadline = simulation.time() + ALL_DONE_WITHIN
    running = asyncio.create_task(last.copy_the_rest())
    try:
        while left := _uncommitted(cluster):
            assert simulation.time() < deadline, f"not processed in {ALL_DONE_WITHIN:g} s: {left}"
            assert not running.done() or isinstance(running.exception(), FencedError), f"it ended: {running}"
            await asyncio.wait([running], timeout=0.5)
    finally:
        last.session.stop()
        await asyncio.wait([running], timeout=30)
        assert running.done(), "a session that is stopped ends"
    running.result()


def _uncommitted(cluster: Cluster) -> list[str]:
    group = cluster._running.groups.entry("g")
    committed = {where: found.offset for where, found in group.offsets.items()} if group else {}
    ends = {("t", number): cluster.partition("t", number).end_offset for number in range(PARTITIONS)}
    return [
        f"{where}: {committed.get(where)} of {end}" for where, end in ends.items() if committed.get(where, 0) != end
    ]


def _check(cluster: Cluster) -> None:
    found = Counter(value for values in committed_values(cluster, "out", PARTITIONS).values() for value in values)
    expected = Counter(b"%d" % number for number in range(RECORDS))
    assert not expected - found, f"lost: {sorted(expected - found)}"
    assert not found - expected, f"processed twice: {sorted(found - expected)}"
    open_now = hanging(cluster, "out", PARTITIONS)
    assert not open_now, f"readers of committed records are held up: {open_now}"
