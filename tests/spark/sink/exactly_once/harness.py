"""The protocol without Spark: drivers that are killed at any request, and tasks that are real.

A :class:`Job` does what Spark does: it plans a batch, runs its tasks, commits it, and runs a batch again, in a
new process, if it doesn't know that it was committed.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa

from aiokproto.client import Client
from aiokproto.cluster import ClusterClient
from aiokproto.config import ClusterConfig
from aiokproto.producer.handed_over import HandedOver
from aiokproto.spark.sink.exactly_once.coordinator import Coordinator
from aiokproto.spark.sink.exactly_once.protocol import FreeId, OnLoss, Plan
from aiokproto.spark.sink.exactly_once.state_topic import StateTopic
from aiokproto.spark.sink.exactly_once.tasks import write_transaction
from aiokproto.spark.sink.exactly_once.transactions import Transactions
from aiokproto.spark.sink.options import TransactionOptions, WriteOptions, parse_write_options
from aiokproto.spark.worker import Worker
from tests.behaviour.secured import Secured
from tests.behaviour.transactional import read, stable
from tests.behaviour.waiting import until
from tests.clusters import BehaviourCluster

T = TypeVar("T")

RUN = "query"


class KilledError(BaseException):
    """The process was killed: no further request is sent."""


@dataclass
class Kill:
    """Kills a driver before or after its n-th request, once.

    Attributes:
        at: The number of the request; -1 for never.
        after: Whether the request is executed, and its response lost.
        only: The name of the requests that count; empty: all.
        requests: The names of the requests so far.
        killed: Whether it has happened.
    """

    at: int = -1
    after: bool = False
    only: str = ""
    requests: list[str] = field(default_factory=list)
    killed: bool = False

    def wrap(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        dead = False

        async def wrapped(request: Any, *args: Any, **options: Any) -> Any:
            nonlocal dead
            if dead:
                raise KilledError
            name = type(request).__name__
            if self.only not in ("", name):
                return await call(request, *args, **options)
            step = len(self.requests)
            self.requests.append(name)
            if step != self.at:
                return await call(request, *args, **options)
            dead = self.killed = True
            if self.after:
                await call(request, *args, **options)
            raise KilledError

        return wrapped


@dataclass
class Message:
    """What a task reports."""

    transaction: HandedOver | None
    spare: FreeId | None


@dataclass
class Job:
    """A query that Spark runs.

    Attributes:
        cluster: Where it writes.
        worker: What its tasks have.
        topic: The topic that it writes to.
        options: Further options of the sink.
        done: The last batch that Spark knows to be committed.
    """

    cluster: BehaviourCluster | Secured
    worker: Worker
    topic: str
    options: dict[str, str] = field(default_factory=dict)
    done: int = -1
    ids: set[str] = field(default_factory=set)
    prefix: str = field(default_factory=lambda: f"job-{secrets.token_hex(4)}")

    @property
    def parsed(self) -> tuple[WriteOptions, TransactionOptions]:
        given = {
            "kafka.bootstrap.servers": self.cluster.bootstrap_servers,
            "semantics": "exactly_once",
            "transactionalIdPrefix": self.prefix,
            "topic": self.topic,
            "kafka.linger.ms": "0",
            # A driver believes after some retries that there is no state topic: two seconds, with the usual pauses.
            "kafka.retry.backoff.ms": "10",
            "kafka.retry.backoff.max.ms": "20",
            # Each job has a topic of its own, because others leave transactions open in theirs.
            "stateTopic": f"{self.prefix}-state",
            **self.options,
        }
        options = parse_write_options(given)
        assert options.transactions is not None
        return options, options.transactions

    async def drive(self, call: Callable[[Coordinator], Awaitable[T]], kill: Kill | None = None) -> T:
        """Call a coordinator in a process of its own."""
        _, options = self.parsed
        cluster = ClusterClient(ClusterConfig.parse(options.connection))
        async with cluster:
            if kill is not None:
                vars(cluster).update(send=kill.wrap(cluster.send), request=kill.wrap(cluster.request))
            state = StateTopic(cluster, options.connection, options.state_topic, self.prefix)
            transactions = Transactions(cluster, options.timeout_ms)
            return await call(Coordinator(self.prefix, state, transactions, OnLoss(options.on_loss)))

    async def plan(self, kill: Kill | None = None) -> Plan:
        return await self.drive(lambda coordinator: coordinator.plan(self.parsed[1].two_phase), kill)

    async def task(self, plan: Plan, partition: int, values: Sequence[bytes], *, first: bool = True) -> Message:
        """One attempt of a task."""
        options, transactions = self.parsed
        free = plan.free[partition] if first and partition < len(plan.free) else None
        batches = iter([pa.record_batch([pa.array(values, pa.binary())], names=["value"])] if values else [])
        _, _, handed_over = await asyncio.to_thread(
            write_transaction, self.worker, options, transactions, plan, free, batches
        )
        if handed_over is not None:
            self.ids.add(handed_over.transactional_id)
        return Message(handed_over, free if handed_over is None else None)

    async def commit(self, plan: Plan, number: int, messages: Sequence[Message], kill: Kill | None = None) -> None:
        transactions = [one.transaction for one in messages if one.transaction is not None]
        spare = [one.spare for one in messages if one.spare is not None] + list(plan.free[len(messages) :])
        await self.drive(lambda coordinator: coordinator.commit(plan.token, RUN, number, transactions, spare), kill)

    async def batch(self, number: int, partitions: Sequence[Sequence[bytes]], kill: Kill | None = None) -> None:
        """Run a batch as Spark does."""
        plan = await self.plan(kill)
        if number > plan.done.get(RUN, -1):
            messages = [await self.task(plan, place, values) for place, values in enumerate(partitions)]
            await self.commit(plan, number, messages, kill)
        self.done = number

    async def run(self, batches: Sequence[Sequence[Sequence[bytes]]], *kills: Kill) -> None:
        """Run batches until Spark knows that all are committed; each restart has the next one of ``kills``."""
        left = list(kills)
        while self.done + 1 < len(batches):
            number = self.done + 1
            try:
                await self.batch(number, batches[number], left[0] if left else None)
            except KilledError:
                left.pop(0)

    async def committed(self, client: Client) -> list[bytes | None]:
        """The records that readers of committed records see, once no transaction is open."""

        async def is_stable() -> bool:
            return await stable(client, self.topic, 0)

        assert await until(is_stable, lambda found: found), "a transaction is open"
        return sorted(await read(client, self.topic), key=repr)


def batches(count: int, partitions: int = 3) -> list[list[list[bytes]]]:
    """Batches in which each value is another one; some partitions have none."""
    return [
        [
            [] if (number + place) % 4 == 3 else [b"%d-%d-%d" % (number, place, row) for row in range(3)]
            for place in range(partitions)
        ]
        for number in range(count)
    ]


def values(given: Sequence[Sequence[Sequence[bytes]]]) -> list[bytes]:
    return sorted(value for batch in given for partition in batch for value in partition)
