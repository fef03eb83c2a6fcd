"""Members that the group loses while their applications work: nothing that was delivered before is committed.

A schedule says when the group removes a member, when others join and leave, and which commits are late, refused or
without a response. Applications finish their records now or much later: after a rebalance, in a task that outlives the
next reads, in a transaction.

The test judges by what it sees itself, not by what the client believes: the order in which the group took partitions
away (`Losses`), and the log of committed results, which has each record once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack
from random import Random
from typing import Any

from aiokproto import Consumer, ExactlyOnce, Producer, ShareConsumer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from aiokproto.codec.messages.end_txn import EndTxnRequest
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.codec.messages.share_acknowledge import ShareAcknowledgeRequest
from aiokproto.codec.messages.txn_offset_commit import TxnOffsetCommitRequest
from aiokproto.codec.schema import Request
from aiokproto.consumer import CommitResult
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, CommitError, KafkaError, TransactionAbortedError
from aiokproto.producer import Transaction
from aiokproto.share import ShareRecord
from aiokproto.simulation import Simulation
from aiokproto.types import Record, TopicPartition
from tests.simulation import sharing
from tests.simulation.environment import check_no_task_is_left, run_within_turns
from tests.simulation.faults import Fault
from tests.simulation.transaction_log import committed_values

UNTIL = 6.0
"""Virtual seconds in which members come, go and are removed."""
RECORDS, PARTITIONS = 40, 2
ALL_DONE_WITHIN = 120.0
"""Virtual seconds after that in which everything is processed."""
KINDS = {"expire": 8, "join": 4, "delay": 3, "refuse": 4, "drop": 2}
"""The kinds of events, and how often each is drawn, relative to the others."""
APIS: dict[str, type[Request[Any]]] = {
    "OffsetCommit": OffsetCommitRequest,
    "TxnOffsetCommit": TxnOffsetCommitRequest,
    "EndTxn": EndTxnRequest,
    "AddOffsetsToTxn": AddOffsetsToTxnRequest,
    "ShareAcknowledge": ShareAcknowledgeRequest,
}
REFUSED = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
PROTOCOLS: tuple[dict[str, Any], ...] = (
    {"partition_assignment_strategy": "range"},
    {"partition_assignment_strategy": "cooperative-sticky"},
    {"group_protocol": "consumer"},
    {"group_instance_id": "static"},
)
CONFIG: dict[str, Any] = {
    "group.min.session.timeout.ms": 500,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.session.timeout.ms": 3000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 300,
    **sharing.OPTIONS,
}


def schedule(seed: int) -> list[Fault]:
    """Return the events of a seed."""
    random = Random(seed)
    drawn = random.choices(tuple(KINDS), tuple(KINDS.values()), k=random.randint(2, 6))
    return sorted((_fault(random, kind) for kind in drawn), key=lambda fault: fault.at)


def _fault(random: Random, kind: str) -> Fault:
    options: tuple[Any, ...] = (random.randrange(3),)
    if kind in ("delay", "refuse", "drop"):
        options = (random.choice(tuple(APIS)), random.choice(REFUSED))
    return Fault(random.uniform(0.3, UNTIL), kind, random.choice((0.3, 1.0, 3.0)), options)


class Losses:
    """The partitions that the group took away from one consumer, in the order of all events of the run."""

    def __init__(self, clock: Iterable[int]) -> None:
        self._next = iter(clock)
        self._taken: dict[TopicPartition, int] = {}

    def now(self) -> int:
        """Return a number greater than all before."""
        return next(self._next)

    def take(self, partitions: Iterable[TopicPartition]) -> None:
        """Record that the group took partitions away: they were revoked or lost, or the member was removed."""
        self._taken.update(dict.fromkeys(partitions, self.now()))

    def since(self, delivered: int, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        """Return the partitions that were taken away since a delivery."""
        return {each for each in partitions if self._taken.get(each, -1) > delivered}


class Delivered:
    """Records that an application has, and whether it may still commit them."""

    def __init__(self, losses: Losses, records: list[Record]) -> None:
        self.records = records
        self._losses = losses
        self._at = losses.now()

    @property
    def lost(self) -> set[TopicPartition]:
        """The partitions that were taken away since."""
        return self._losses.since(self._at, {TopicPartition(each.topic, each.partition) for each in self.records})


class Application:
    """One consumer, and what its application does with what it reads."""

    def __init__(self, group: Group, number: int) -> None:
        self.group = group
        self.random = group.random
        self.losses = Losses(group.clock)
        own: dict[str, Any] = {**group.options, **group.protocol}
        if "group_instance_id" in own:
            own["group_instance_id"] = f"static-{number}"
        self.consumer = Consumer(**own)
        take = self.losses.take
        self.consumer.subscribe("t", on_revoked=take, on_lost=take if self.random.random() < 0.5 else None)
        self._late: set[asyncio.Task[None]] = set()

    @property
    def member_id(self) -> str:
        member = self.consumer._engine.member
        return member.metadata.member_id if member is not None else ""

    def removed(self) -> None:
        """Record that the group has removed the member, which doesn't know yet."""
        self.losses.take(self.consumer.assignment())

    async def work(self, until: float) -> None:
        """Read and process until that virtual time."""
        async with self.consumer:
            try:
                await self.read(until)
            finally:
                for task in self._late:
                    task.cancel()
                if self._late:
                    await asyncio.wait(self._late)
        for task in self._late:
            if not task.cancelled():
                task.result()

    async def read(self, until: float) -> None:
        """Read until then."""
        raise NotImplementedError

    async def take(self, most: int = 5) -> Delivered | None:
        """Deliver the next records."""
        records = await self.consumer.poll(200, self.random.randint(1, most))
        return Delivered(self.losses, records) if records else None

    async def pause(self) -> None:
        """Take some time for the work."""
        await asyncio.sleep(self.random.choice((0.0, 0.0, 0.3, 1.0, 2.5)))

    def later(self, work: Awaitable[None]) -> None:
        """Finish something in a task that outlives the next reads."""
        task = asyncio.ensure_future(work)
        self._late.add(task)


class Committing(Application):
    """Commits records, batches, dicts and everything, in time and late."""

    async def read(self, until: float) -> None:
        while self.group.time() < until:
            if (delivered := await self.take()) is None:
                continue
            if self.random.random() < 0.3:
                self.later(self._finish(delivered, delivered.records))
                continue
            offsets = {(each.topic, each.partition): each.offset + 1 for each in delivered.records}
            what: Any = self.random.choice((None, offsets, delivered.records, delivered.records[-1]))
            await self._finish(delivered, what)

    async def _finish(self, delivered: Delivered, what: Any) -> None:
        # The values are added first: if this is cancelled in its pause, a later commit covers them.
        self.group.processed.update(each.value for each in delivered.records)
        await self.pause()
        lost = delivered.lost
        try:
            result = await self.consumer.commit(what, timeout_ms=3000)
        except KafkaError:
            return
        check_commit(result, lost, what)


def check_commit(result: CommitResult, lost: set[TopicPartition], what: object) -> None:
    """Assert that partitions that were lost before the call aren't committed."""
    wrong = lost & set(result.committed)
    assert not wrong, f"committed after a loss, by {type(what).__name__}: {sorted(wrong)}"


class Running(Application):
    """Handles records with ``run()``, and commits them in handlers that outlive rebalances."""

    async def read(self, until: float) -> None:
        running = asyncio.ensure_future(self.consumer.run(self._handle, concurrency=4, drain_timeout_ms=500))
        await asyncio.wait([running], timeout=max(until - self.group.time(), 0.0))
        self.consumer.stop_run()
        await asyncio.wait([running])
        if (error := running.exception()) is not None and not isinstance(error, KafkaError):
            raise error

    async def _handle(self, record: Record) -> None:
        delivered = Delivered(self.losses, [record])
        try:
            await self.pause()
        finally:
            # The handler continues even if it is cancelled.
            self.group.processed.add(record.value)
            lost = delivered.lost
            try:
                check_commit(await self.consumer.commit(record, timeout_ms=3000), lost, record)
            except KafkaError:
                pass


class Transacting(Application):
    """Copies in transactions, and sends offsets in all possible ways."""

    def __init__(self, group: Group, number: int) -> None:
        super().__init__(group, number)
        self._producer = group.producer(number)

    async def read(self, until: float) -> None:
        async with self._producer:
            while self.group.time() < until:
                if (delivered := await self.take(20)) is not None:
                    await self._copy(delivered)

    async def _copy(self, delivered: Delivered) -> None:
        progress, lost = self.consumer.progress(delivered.records), set[TopicPartition]()
        try:
            async with self._producer.transaction() as txn:
                for record in delivered.records:
                    await txn.post("out", record.value)
                await self.pause()
                lost = delivered.lost
                await self._send(txn, delivered, progress)
                await asyncio.sleep(self.random.choice((0.0, 0.5)))
        except (TransactionAbortedError, CommitError):
            progress.rewind()
            return
        except KafkaError:
            progress.rewind()
            raise
        assert not lost, f"a transaction has committed what was lost: {sorted(lost)}"

    async def _send(self, txn: Transaction, delivered: Delivered, progress: Any) -> None:
        way = self.random.choice(("consumer", "early", "late", "dict"))
        if way == "consumer":
            await txn.send_offsets(self.consumer)
        elif way == "early":
            await txn.send_offsets(progress)
        elif way == "late":
            await txn.send_offsets(self.consumer.progress(delivered.records))
        else:
            await txn.send_offsets(progress.positions(), self.consumer.group_metadata())


class Session(Application):
    """Copies with ``ExactlyOnce``."""

    def __init__(self, group: Group, number: int) -> None:
        super().__init__(group, number)
        self._session = ExactlyOnce(self.consumer, group.producer(number))

    async def work(self, until: float) -> None:
        async with self._session:
            most = self.random.choice((1, 5, 50))
            running = asyncio.ensure_future(self._session.run(self._process, max_records=most))
            await asyncio.wait([running], timeout=max(until - self.group.time(), 0.0))
            self._session.stop()
            await asyncio.wait([running])
            running.result()

    async def _process(self, records: list[Record], txn: Transaction) -> None:
        for record in records:
            await txn.post("out", record.value)
        await self.pause()


class Members:
    """The members of a group, and what happens to them."""

    def __init__(self, simulation: Simulation, cluster: Cluster) -> None:
        self.random = simulation.random
        self.time = simulation.time
        self.cluster = cluster

    async def work(self, until: float) -> None:
        """Let one more member work until that virtual time."""
        raise NotImplementedError

    def expire(self, number: int) -> None:
        """Let the group remove a member, if there is any."""
        raise NotImplementedError

    def expired(self, member_id: str) -> bool:
        """Let the group remove this member. Return whether it was a member."""
        try:
            self.cluster.expire_session("g", member_id)
        except BrokerError:
            return False
        return True

    async def happen(self, faults: list[Fault]) -> None:
        """Carry out a schedule."""
        began = self.time()
        tasks: list[asyncio.Future[None]] = []
        for fault in faults:
            await asyncio.sleep(max(began + fault.at - self.time(), 0.0))
            if fault.kind == "expire":
                self.expire(fault.options[0])
            elif fault.kind == "join":
                tasks.append(asyncio.ensure_future(self.work(self.time() + fault.seconds)))
            else:
                tasks.append(asyncio.ensure_future(disturb(self.cluster, fault)))
        await asyncio.gather(*tasks)


class Group(Members):
    """A group whose members have applications of one kind.

    Attributes:
        processed: The values that applications have processed.
        protocol: The options of all members.
    """

    def __init__(self, simulation: Simulation, cluster: Cluster, kind: type[Application]) -> None:
        super().__init__(simulation, cluster)
        self.processed: set[bytes | None] = set()
        self.protocol = self.random.choice(PROTOCOLS)
        self.clock = iter(range(1 << 62))
        self.options: dict[str, Any] = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": "g",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": False,
            "isolation_level": "read_committed",
            "session_timeout_ms": 3000,
            "heartbeat_interval_ms": 300,
            "max_poll_interval_ms": 8000,
        }
        self._kind = kind
        self._number = 0
        self.applications: list[Application] = []

    def producer(self, number: int) -> Producer:
        return Producer(
            bootstrap_servers=self.cluster.bootstrap_servers,
            transactional_id=f"copy-{number}",
            transaction_timeout_ms=8000,
            linger_ms=0,
        )

    async def work(self, until: float) -> None:
        self._number += 1
        application = self._kind(self, self._number)
        self.applications.append(application)
        try:
            await application.work(until)
        finally:
            self.applications.remove(application)

    def expire(self, number: int) -> None:
        if self.applications:
            chosen = self.applications[number % len(self.applications)]
            if self.expired(chosen.member_id):
                chosen.removed()


async def disturb(cluster: Cluster, fault: Fault) -> None:
    """Delay, refuse or drop one request of an API."""
    api = APIS[fault.options[0]]
    with ExitStack() as stack:
        if fault.kind == "delay":
            stack.enter_context(cluster.faults.delay(api, fault.seconds, times=1))
        elif fault.kind == "refuse":
            stack.enter_context(cluster.faults.fail(api, fault.options[1], times=1))
        else:
            stack.enter_context(cluster.faults.drop(api, "response", times=1))
        await asyncio.sleep(fault.seconds)


def runs(kind: type[Application]) -> Callable[[int, list[Fault]], Simulation]:
    """Return the function that runs a seed with applications of one kind."""

    def run(seed: int, faults: list[Fault]) -> Simulation:
        return run_within_turns(seed, lambda simulation: _program(simulation, kind, faults))

    return run


async def _program(simulation: Simulation, kind: type[Application], faults: list[Fault]) -> None:
    async with Cluster(1, auto_create_topics=False, config=CONFIG) as cluster:
        await cluster.create_topic("t", PARTITIONS)
        await cluster.create_topic("out", 1)
        group = Group(simulation, cluster, kind)
        count = simulation.random.randint(1, 2)
        members = (group.work(UNTIL) for _ in range(count))
        await asyncio.gather(_fill(simulation, cluster), group.happen(faults), *members)
        await _finish(simulation, cluster, group)
        if kind in (Transacting, Session):
            values = Counter(committed_values(cluster, "out", 1)[0])
            assert values == Counter(b"%d" % number for number in range(RECORDS)), f"not each once: {values}"
        else:
            assert len(group.processed) == RECORDS, "each is processed at least once"
    check_no_task_is_left()


async def _fill(simulation: Simulation, cluster: Cluster) -> None:
    """Write records all the time, so that a member has some whenever it is removed."""
    async with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
        for number in range(RECORDS):
            await producer.post("t", b"%d" % number, partition=number % PARTITIONS)
            await asyncio.sleep(UNTIL / RECORDS * simulation.random.random() * 2)


async def _finish(simulation: Simulation, cluster: Cluster, group: Group) -> None:
    """Let a member process the remaining records."""
    deadline = simulation.time() + ALL_DONE_WITHIN
    seconds = 3.0
    while left := _uncommitted(cluster):
        assert simulation.time() < deadline, f"not committed: {left}"
        await group.work(simulation.time() + seconds)
        # A static member that was closed keeps its partitions until its session ends.
        seconds = 10.0


def _uncommitted(cluster: Cluster) -> dict[int, int]:
    group = cluster._running.groups.entry("g")
    committed = {where: found.offset for where, found in group.offsets.items()} if group else {}
    ends = {number: cluster.partition("t", number).end_offset for number in range(PARTITIONS)}
    return {number: end for number, end in ends.items() if committed.get(("t", number), 0) != end}


# -- share groups


class Shares(Members):
    """A share group: only its new owner acknowledges a record that was delivered again.

    Outcomes aren't compared, because brokers answer late acknowledgements below the start offset with success.
    """

    def __init__(self, simulation: Simulation, cluster: Cluster) -> None:
        super().__init__(simulation, cluster)
        self.newest: dict[tuple[int, int], ShareRecord] = {}
        self.consumers: list[ShareConsumer] = []

    async def work(self, until: float) -> None:
        consumer = ShareConsumer(
            "t",
            bootstrap_servers=self.cluster.bootstrap_servers,
            group_id="g",
            acknowledgement_mode="explicit",
            acknowledge_linger_ms=self.random.choice((0, 100)),
            renew_locks=self.random.random() < 0.3,
        )
        kept: list[ShareRecord] = []
        self.consumers.append(consumer)
        try:
            async with consumer:
                while self.time() < until:
                    kept += (found := await consumer.poll(200, self.random.randint(1, 5)))
                    self.newest.update({(each.partition, each.offset): each for each in found})
                    await asyncio.sleep(self.random.choice((0.0, 0.3, sharing.LOCK + 0.2)))
                    self._accept(consumer, kept)
        finally:
            self.consumers.remove(consumer)

    def _accept(self, consumer: ShareConsumer, kept: list[ShareRecord]) -> None:
        self.random.shuffle(kept)
        for _ in range(self.random.randint(0, len(kept))):
            record = kept.pop()
            accepted = consumer.accept(record)
            again = self.newest[record.partition, record.offset] is not record
            assert not (accepted and again), f"{record!r} was delivered again, and accepted by what had it before"

    def expire(self, number: int) -> None:
        if self.consumers:
            self.expired(self.consumers[number % len(self.consumers)]._engine.member.member_id)


def run_shares(seed: int, faults: list[Fault]) -> Simulation:
    """Run a seed with a share group."""

    async def program(simulation: Simulation) -> None:
        async with Cluster(1, auto_create_topics=False, config=CONFIG) as cluster:
            await cluster.create_topic("t", PARTITIONS)
            await sharing.configure(cluster)
            shares = Shares(simulation, cluster)
            members = (shares.work(UNTIL) for _ in range(2))
            await asyncio.gather(_fill(simulation, cluster), shares.happen(faults), *members)
        check_no_task_is_left()

    return run_within_turns(seed, program)
