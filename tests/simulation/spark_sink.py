"""Spark's part of the protocol in virtual time: drivers that die, hang and wake up again, and attempts of all kinds.

A :class:`Query` runs batches as Spark does. Each call of a coordinator is a separate process, which can be killed
before or after any request, or hang there while Spark continues without it: it wakes up when others have taken over.
Attempts of tasks fail, have copies, and continue after their batch has ended. Meanwhile brokers and network fail.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar
from unittest.mock import patch

from aiokproto.broker import Cluster
from aiokproto.broker.transactions import transaction_metadata
from aiokproto.cluster import ClusterClient
from aiokproto.config import ClusterConfig
from aiokproto.errors import KafkaError
from aiokproto.producer.handed_over import HandedOver
from aiokproto.simulation import Simulation
from aiokproto.spark.sink.exactly_once import state_topic, tasks
from aiokproto.spark.sink.exactly_once.coordinator import Coordinator
from aiokproto.spark.sink.exactly_once.protocol import FreeId, OnLoss, Plan, TransactionLossError
from aiokproto.spark.sink.exactly_once.state_topic import StateTopic
from aiokproto.spark.sink.exactly_once.tasks import start_producer
from aiokproto.spark.sink.exactly_once.transactions import Transactions
from aiokproto.spark.sink.options import TransactionOptions, WriteOptions
from tests.simulation.environment import Environment
from tests.simulation.faults import WITH_TRANSACTIONS, Fault, carry_out, draw_some
from tests.simulation.request_faults import TRANSACTIONAL, TRANSACTIONAL_REFUSALS
from tests.simulation.transaction_log import committed_values, hanging

BROKERS, PARTITIONS, BATCHES, UNTIL = 3, 2, 3, 8.0
APIS = ("EndTxn", *(api for api in TRANSACTIONAL if api != "EndTxn"))
RUN = "query"
RELEASES = (None, None, "3.9")
LONG_TIMEOUT = (0.3, 2.0, 30.0)
"""How long Spark waits for a driver before it starts another one (s)."""

T = TypeVar("T")


class KilledError(BaseException):
    """The process was killed."""


class Query:
    """A query, its drivers and its tasks."""

    def __init__(self, simulation: Simulation, cluster: Cluster, *, two_phase: bool) -> None:
        self.random = simulation.random
        self.killing = self.random.choice((0.0, 0.02, 0.05))
        self.hanging = self.random.choice((0.0, 0.03, 0.1))
        self.failing = self.random.choice((0.0, 0.2))
        self.two_phase = two_phase
        servers = cluster.bootstrap_servers
        connection = {"bootstrap_servers": servers, "default_api_timeout_ms": 6000, "request_timeout_ms": 2000}
        self.transactions = TransactionOptions(connection, "query", state_topic="state", two_phase=two_phase)
        producer = {**connection, "linger_ms": 0, "delivery_timeout_ms": 8000, "max_block_ms": 6000}
        self.options = WriteOptions(producer, "t", transactions=self.transactions)
        self.left: set[asyncio.Task[Any]] = set()
        self.written: list[bytes] = []

    def calm(self) -> None:
        """Let no process die or hang from now on."""
        self.killing = self.hanging = self.failing = 0.0

    # -- drivers

    async def drive(self, call: Callable[[Coordinator], Awaitable[T]]) -> T | None:
        """Call a coordinator in its own process. Return None if it was killed, or hangs."""
        process = asyncio.create_task(self._process(call))
        self.left.add(process)
        await asyncio.wait([process], timeout=self.random.choice(LONG_TIMEOUT))
        if not process.done():
            return None
        self.left.discard(process)
        try:
            return process.result()
        except KilledError:
            return None

    async def _process(self, call: Callable[[Coordinator], Awaitable[T]]) -> T:
        options = self.transactions
        async with ClusterClient(ClusterConfig.parse(options.connection)) as cluster:
            dead = False

            def gate(send: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
                async def sent(*args: Any, **named: Any) -> Any:
                    nonlocal dead
                    if self.random.random() < self.hanging:
                        await asyncio.sleep(self.random.uniform(0.1, 5.0))
                    dead = dead or self.random.random() < self.killing
                    if dead and self.random.random() < 0.5:
                        raise KilledError
                    response = await send(*args, **named)
                    if dead:
                        raise KilledError
                    return response

                return sent

            vars(cluster).update(send=gate(cluster.send), request=gate(cluster.request))
            state = StateTopic(cluster, options.connection, options.state_topic, options.prefix)
            return await call(
                Coordinator(options.prefix, state, Transactions(cluster, options.timeout_ms), OnLoss.FAIL)
            )

    async def plan(self) -> Plan | None:
        try:
            return await self.drive(lambda coordinator: coordinator.plan(self.two_phase))
        except TransactionLossError as error:
            raise AssertionError("no transaction has a timeout here") from error
        except KafkaError:
            return None

    # -- tasks

    async def attempt(self, plan: Plan, free: FreeId | None, rows: list[bytes]) -> HandedOver | None:
        """Make one attempt of a task. Return None if it has failed."""
        async with ClusterClient(ClusterConfig.parse(self.transactions.connection)) as cluster:
            try:
                producer = await start_producer(cluster, self.options, self.transactions, plan, free)
            except KafkaError:
                return None
            try:
                transaction = await producer.transaction().__aenter__()
                for row in rows:
                    await transaction.send("t", row, partition=row[-1] % PARTITIONS)
                if self.random.random() < self.failing:
                    return None
                await asyncio.sleep(self.random.choice((0.0, 0.0, 0.5)))
                return await transaction.hand_over()
            except KafkaError:
                return None
            finally:
                if self.random.random() < self.failing:
                    await producer._cluster.close(0)
                try:
                    await producer.close(5000)
                except KafkaError:
                    pass

    async def task(self, plan: Plan, partition: int, rows: list[bytes]) -> tuple[HandedOver | None, FreeId | None]:
        """Make attempts of a task until one succeeds. Return its transaction, or the id that it hasn't used."""
        free = plan.free[partition] if partition < len(plan.free) else None
        if not rows:
            return None, free
        for number in range(5):
            await asyncio.sleep(self.random.choice((0.0, 0.2)))
            attempts = [asyncio.create_task(self.attempt(plan, free if number == 0 else None, rows))]
            if self.random.random() < self.failing:
                attempts.append(asyncio.create_task(self.attempt(plan, None, rows)))
            self.left.update(attempts)
            # One of the copies is taken, and another continues.
            done, _ = await asyncio.wait(attempts, timeout=30, return_when=asyncio.FIRST_COMPLETED)
            for one in sorted(done, key=attempts.index):
                transaction = one.result()
                if transaction is not None:
                    return transaction, None
        raise KilledError

    # -- Spark

    async def run(self) -> None:
        """Run all batches, each until Spark knows that it is committed."""
        for number in range(BATCHES):
            partitions = [
                [b"%d-%d-%d" % (number, place, row) for row in range(self.random.randint(0, 2))]
                for place in range(self.random.randint(0, 3))
            ]
            self.written += [row for rows in partitions for row in rows]
            for _ in range(100):
                if await self._batch(number, partitions):
                    break
                await asyncio.sleep(self.random.choice((0.0, 0.5)))
            else:
                raise AssertionError(f"batch {number} is stuck")

    async def _batch(self, number: int, partitions: list[list[bytes]]) -> bool:
        """Try a batch in a new run of the query. Return whether Spark knows that it is committed."""
        plan = await self.plan()
        if plan is None:
            return False
        if number <= plan.done.get(RUN, -1):
            return True
        messages = await asyncio.gather(
            *(self.task(plan, place, rows) for place, rows in enumerate(partitions)), return_exceptions=True
        )
        found = [one for one in messages if not isinstance(one, BaseException)]
        transactions = [transaction for transaction, _ in found if transaction is not None]
        if len(found) == len(messages):
            spare = [free for _, free in found if free is not None] + list(plan.free[len(partitions) :])

            async def commit(coordinator: Coordinator) -> bool:
                await coordinator.commit(plan.token, RUN, number, transactions, spare)
                return True

            try:
                if await self.drive(commit):
                    return True
            except KafkaError:
                pass
        # The commit may still be under way.
        if self.random.random() < 0.7:
            try:
                await self.drive(lambda coordinator: coordinator.abort(plan.token))
            except KafkaError:
                pass
        return False


def schedule(seed: int) -> list[Fault]:
    return draw_some(seed, UNTIL, BROKERS, PARTITIONS, APIS, weights=WITH_TRANSACTIONS, refusals=TRANSACTIONAL_REFUSALS)


def run(seed: int, faults: list[Fault]) -> Simulation:
    """Run a query under these faults. Raise AssertionError unless each of its rows is there once."""
    simulation = Simulation(seed)
    # The epochs of an id are soon used up in some runs: its next transaction has another producer id.
    last = simulation.random.choice((transaction_metadata.LAST_EPOCH, 6, 9))
    with (
        patch.object(state_topic, "SNAPSHOT_AFTER", simulation.random.choice((0, 8, 100))),
        patch.object(tasks, "new_name", lambda: f"{simulation.random.getrandbits(64):016x}"),
        patch.multiple(transaction_metadata, LAST_EPOCH=last, MAX_EPOCH=last + 1),
    ):
        simulation.run(_program(simulation, faults))
    return simulation


async def _program(simulation: Simulation, faults: list[Fault]) -> None:
    release = simulation.random.choice(RELEASES)
    two_phase = release is None and simulation.random.random() < 0.3
    config = {
        "transaction.state.log.num.partitions": 2,
        "transaction.two.phase.commit.enable": two_phase,
        "unstable.api.versions.enable": two_phase,
    }
    async with Cluster(BROKERS, auto_create_topics=False, config=config, as_version=release) as cluster:
        await cluster.create_topic("t", PARTITIONS, replication=BROKERS)
        query = Query(simulation, cluster, two_phase=two_phase)
        happening: Coroutine[Any, Any, None] = carry_out(Environment(simulation, cluster, "t"), faults)
        await asyncio.gather(query.run(), happening)
        query.calm()
        ended: list[Any] = list(await asyncio.gather(*query.left, return_exceptions=True))
        for one in ended:
            if isinstance(one, BaseException) and not isinstance(one, (KafkaError, KilledError)):
                raise one
        # The loop aborts transactions that the last attempts have left.
        while await query.plan() is None:
            pass
        assert not (left := hanging(cluster, "t", PARTITIONS)), left
        found = [value for values in committed_values(cluster, "t", PARTITIONS).values() for value in values]
        assert sorted(found) == sorted(query.written), f"{sorted(found)} instead of {sorted(query.written)}"
