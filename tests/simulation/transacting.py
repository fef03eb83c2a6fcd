"""Transactional producers under faults: committed transactions are visible once and as a whole, aborted ones aren't.

There are several transactional ids, each with lives that follow or overlap each other. An overlapped life is a zombie,
which continues until it notices. Calls are cancelled wherever they suspend, blocks raise, processes die without
closing.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from aiokproto import Producer
from aiokproto.broker import Cluster
from aiokproto.errors import (
    BootstrapError,
    BrokerError,
    DeadlineError,
    FencedError,
    KafkaError,
    TransactionAbortedError,
    TransactionOutcomeUnknownError,
)
from aiokproto.producer import Transaction, TransactionStatus
from aiokproto.simulation import Simulation
from tests.simulation.cancelling import Suspensions
from tests.simulation.environment import Environment, check_no_task_is_left, run_within_turns
from tests.simulation.faults import WITH_TRANSACTIONS, Fault, carry_out, draw_some, stalled
from tests.simulation.request_faults import TRANSACTIONAL, TRANSACTIONAL_REFUSALS
from tests.simulation.transaction_log import hanging, logged_transactions

BROKERS, PARTITIONS, UNTIL = 3, 3, 8.0
APIS = ("EndTxn", *(api for api in TRANSACTIONAL if api != "EndTxn"))
API_TIMEOUT, DELIVERY_TIMEOUT, SLACK = 6.0, 8.0, 2.0
LONGEST = DELIVERY_TIMEOUT + 4 * API_TIMEOUT + SLACK
"""Seconds that a call may take: the outcome of the records, the end, the next epoch, and the search for a
coordinator."""

T = TypeVar("T")


@dataclass
class Attempt:
    """One transaction, as the application knows it.

    Attributes:
        name: The prefix of its values: the transactional id, the life, and the transaction.
        accepted: The values whose calls have returned, in order, for each partition.
        doubtful: The values whose calls were cancelled or raised, which may be written or not.
        offset: The offset that it commits for the group; None without one.
        outcome: True if committed, False if aborted, None if unknown.
    """

    name: bytes
    accepted: dict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    doubtful: set[bytes] = field(default_factory=set)
    offset: int | None = None
    outcome: bool | None = None


class Life:
    """One producer, from its start to its end. It may continue when another has taken over its transactional id."""

    def __init__(self, workload: Workload, which: int, number: int) -> None:
        self.workload, self.which, self.number = workload, which, number
        self.random = workload.simulation.random
        self.is_zombie = self.starting = self.died = False
        self.producer = Producer(
            bootstrap_servers=workload.cluster.bootstrap_servers,
            transactional_id=f"id-{which}",
            **workload.options,
            linger_ms=self.random.choice((0, 5)),
            batch_size=self.random.choice((100, 16384)),
            delivery_timeout_ms=1000 * self.random.choice((1.5, DELIVERY_TIMEOUT)),
            # The longer one exceeds a call's deadline, which then comes while a request is in flight.
            request_timeout_ms=self.random.choice((2000, 2000, 30_000)),
            default_api_timeout_ms=1000 * API_TIMEOUT,
            max_block_ms=1000 * API_TIMEOUT,
        )

    async def run(self, until: float) -> None:
        """Write transactions until that time, then close, or die without closing."""
        self.workload.took_over(self)
        self.starting = True
        try:
            started = await self._start()
            self.starting = False
            # The order in which lives start doesn't count: a request that is sent again can overtake a later life's
            # request.
            self.workload.took_over(self)
            if not started or not await self.recover():
                return
            manager = self.producer._transactions
            assert manager is not None
            assert manager.id.current is not None
            first_epoch = manager.id.current.epoch
            count = 0
            while not self.died and self.workload.simulation.time() < until:
                attempt = Attempt(b"%d/%d/%d" % (self.which, self.number, count))
                self.workload.attempts.append(attempt)
                count += 1
                if not await self._attempt(attempt, 1000 * first_epoch + count):
                    break
                await asyncio.sleep(self.random.choice((0, 0.01, 0.2)))
        finally:
            if self.died or self.random.random() < 0.3:
                # A process that died sends no request, and doesn't end its transaction.
                await self.producer._cluster.close(0)
            try:
                await self._timed("close", self.producer.close(1000 * API_TIMEOUT), API_TIMEOUT + SLACK)
            except KafkaError:
                # These are records of a transaction that was open.
                pass

    async def _start(self) -> bool:
        try:
            await self._timed("start", self.producer.start())
        except FencedError:
            return not self._expected_fence()
        except (DeadlineError, BootstrapError):
            return False
        return True

    async def recover(self) -> bool:
        """Do what the application does after a start. Return whether the producer can continue."""
        return True

    async def _attempt(self, attempt: Attempt, offset: int) -> bool:
        """Make one transaction. Return whether the producer can continue."""
        txn = self.producer.transaction()
        try:
            try:
                if await self._maybe_cancelled("begin", txn.__aenter__()) is None:
                    return True
                await self._fill(txn, attempt, offset)
                await self._end(txn, attempt)
            except TransactionAbortedError:
                attempt.outcome = False
                await self._abort(txn)
            except (TransactionOutcomeUnknownError, DeadlineError):
                if txn.status.name == "OPEN":
                    await self._abort(txn)
        except FencedError:
            return not self._expected_fence()
        return True

    def _expected_fence(self) -> bool:
        """Return whether a fence is expected: by the next life, or because the transaction was open for too long."""
        allowed = self.is_zombie or self.workload.transaction_timeout < 60_000
        assert allowed, f"life {self.number} of id {self.which} was fenced by nobody"
        return True

    async def _fill(self, txn: Transaction, attempt: Attempt, offset: int) -> None:
        for number in range(self.random.choice((0, 1, 3, 10))):
            partition = self.random.randrange(PARTITIONS)
            value = attempt.name + b"/%d" % number
            attempt.doubtful.add(value)
            call = txn.send if self.random.random() < 0.2 else txn.post
            try:
                done = await self._maybe_cancelled("write", call("t", value, partition=partition))
            except FencedError:
                raise
            except BrokerError:
                # This is the record's error. The commit raises the transaction's error.
                done = None
            if done is not None:
                attempt.doubtful.discard(value)
                attempt.accepted[partition].append(value)
            if self.random.random() < 0.1:
                await asyncio.sleep(self.random.choice((0.01, 0.5, 3.0)))
        if self.random.random() < 0.4:
            attempt.offset = offset
            await self._maybe_cancelled("send_offsets", txn.send_offsets({("t", 0): offset}, f"g-{self.which}"))

    async def _end(self, txn: Transaction, attempt: Attempt) -> None:
        way = self.random.choice(("commit", "commit", "commit", "block", "abort", "raise", "cancel", "race"))
        if way == "race":
            await self._race(txn, attempt)
        elif way == "abort":
            attempt.outcome = False
            await self._abort(txn)
        elif way == "raise":
            attempt.outcome = False
            try:
                raise ZeroDivisionError
            except ZeroDivisionError as error:
                await self._timed("leaving", txn.__aexit__(ZeroDivisionError, error, None))
        elif way == "cancel":
            attempt.outcome = False
            await txn.__aexit__(asyncio.CancelledError, asyncio.CancelledError(), None)
        elif way == "block":
            await self._timed("leaving", txn.__aexit__(None, None, None))
            attempt.outcome = True
        else:
            await self._commit(txn, attempt)

    async def _race(self, txn: Transaction, attempt: Attempt) -> None:
        """Write and end at the same time, in several tasks. Records that were accepted before the end are part of the
        transaction."""
        value = attempt.name + b"/race"
        attempt.doubtful.add(value)

        async def write() -> None:
            await txn.post("t", value, partition=0)
            attempt.doubtful.discard(value)
            attempt.accepted[0].append(value)

        calls = [write, txn.commit, *self.random.choice(([], [txn.abort], [txn.commit]))]
        self.random.shuffle(calls)
        results = await asyncio.gather(*(self._timed("race", call()) for call in calls), return_exceptions=True)
        errors = [result for result in results if isinstance(result, BaseException)]
        for error in errors:
            if isinstance(error, FencedError) or not isinstance(error, KafkaError):
                raise error
        attempt.outcome = {TransactionStatus.COMMITTED: True, TransactionStatus.ABORTED: False}.get(txn.status)

    async def _commit(self, txn: Transaction, attempt: Attempt) -> None:
        for _ in range(3):
            try:
                done = await self._maybe_cancelled("commit", txn.commit(), result=True)
            except TransactionOutcomeUnknownError:
                continue
            if done:
                attempt.outcome = True
                return
            if txn.status.name == "ABORTED":
                attempt.outcome = False
                return

    async def _abort(self, txn: Transaction) -> None:
        try:
            await self._maybe_cancelled("abort", txn.abort(), result=True)
        except DeadlineError:
            pass

    async def _maybe_cancelled(self, name: str, call: Awaitable[T], *, result: bool = False) -> T | bool | None:
        """Await a call, or cancel it where it suspends, and then return None."""
        if self.random.random() > self.workload.cancelling:
            found = await self._timed(name, call)
            return True if result else found
        at = self.random.randint(1, 6)

        async def run() -> T:
            return await Suspensions().run(call, at)

        task = asyncio.create_task(run())
        await self._timed(name, asyncio.wait([task]))
        if task.cancelled():
            return None
        found = task.result()
        return True if result else found

    async def _timed(self, name: str, call: Awaitable[T], longest: float = LONGEST) -> T:
        began = self.workload.simulation.time()
        try:
            return await call
        finally:
            took = self.workload.simulation.time() - began
            assert took <= longest + self.workload.stalled, f"{name} took {took:.1f} s"


class Workload:
    """What all lives share.

    Attributes:
        life: The class of the lives.
        releases: The brokers' releases, with transactions of version 2 or 1.
        config: The brokers' options.
        options: The producers' options.
        attempts: All transactions.
    """

    life: ClassVar[type[Life]] = Life
    releases: ClassVar[Sequence[str | None]] = (None, None, "3.9", "2.5")
    config: ClassVar[Mapping[str, bool]] = {}

    def __init__(self, simulation: Simulation, cluster: Cluster, faults: list[Fault]) -> None:
        self.simulation, self.cluster = simulation, cluster
        self.attempts: list[Attempt] = []
        self.stalled = stalled(faults)
        self.cancelling = simulation.random.choice((0.0, 0.05, 0.3))
        self.transaction_timeout = simulation.random.choice((2000, 60_000, 60_000))
        self.options: dict[str, Any] = {"transaction_timeout_ms": self.transaction_timeout}
        self._lives: dict[int, list[Life]] = defaultdict(list)

    def next_life(self, which: int) -> Life:
        """Return another life of a transactional id."""
        life = self.life(self, which, len(self._lives[which]))
        # Another life's request may be executed after this one's.
        life.is_zombie = any(other.starting for other in self._lives[which])
        self._lives[which].append(life)
        return life

    def took_over(self, life: Life) -> None:
        """Record that a life has its producer id, or may have it: all other lives of the transactional id are
        fenced."""
        for other in self._lives[life.which]:
            other.is_zombie = other.is_zombie or other is not life

    def calm(self) -> None:
        """Let all calls end by themselves from now on."""
        self.cancelling = 0.0

    def end(self) -> None:
        """Store the outcomes of attempts before they are compared with the logs."""


def schedule(seed: int) -> list[Fault]:
    return draw_some(seed, UNTIL, BROKERS, PARTITIONS, APIS, weights=WITH_TRANSACTIONS, refusals=TRANSACTIONAL_REFUSALS)


def run(seed: int, faults: list[Fault], kind: type[Workload] = Workload) -> Simulation:
    """Write transactions under these faults. Raise AssertionError if a guarantee is violated."""
    return run_within_turns(seed, lambda simulation: _program(simulation, faults, kind))


async def _program(simulation: Simulation, faults: list[Fault], kind: type[Workload]) -> None:
    random = simulation.random
    config = {"transaction.state.log.num.partitions": 2, "offsets.topic.num.partitions": 2, **kind.config}
    release = random.choice(kind.releases)
    async with Cluster(BROKERS, auto_create_topics=False, config=config, as_version=release) as cluster:
        await cluster.create_topic("t", PARTITIONS, replication=BROKERS)
        workload = kind(simulation, cluster, faults)

        async def live(which: int, after: float) -> None:
            await asyncio.sleep(after)
            await workload.next_life(which).run(simulation.time() + random.uniform(0.5, UNTIL / 2))

        ids = range(random.randint(1, 3))
        happening = asyncio.create_task(carry_out(Environment(simulation, cluster, "t"), faults))
        try:
            starts = [
                (which, 0.0 if not life else random.uniform(0, UNTIL / 2))
                for which in ids
                for life in range(random.randint(1, 3))
            ]
            await asyncio.gather(*(live(*start) for start in starts))
            await happening
        finally:
            happening.cancel()
        workload.calm()
        for which in ids:
            await _finish(workload, which)
        workload.end()
        _check(workload)
        _check_offsets(workload, ids)
        check_no_task_is_left()


async def _finish(workload: Workload, which: int) -> None:
    """Run one more life, which ends the transactions that the others have left open."""
    life = workload.next_life(which)
    attempt = Attempt(b"%d/%d/0" % (which, life.number))
    workload.attempts.append(attempt)
    workload.took_over(life)
    async with life.producer:
        assert await life.recover(), "nothing is wrong any more"
        async with life.producer.transaction() as txn:
            for partition in range(PARTITIONS):
                attempt.accepted[partition].append(attempt.name + b"/%d" % partition)
                await txn.send("t", attempt.accepted[partition][0], partition=partition)
    attempt.outcome = True


def _check(workload: Workload) -> None:
    logged = logged_transactions(workload.cluster, "t", PARTITIONS)
    found: dict[bytes, dict[int, list[bytes]]] = defaultdict(dict)
    for transaction in logged:
        names = {value.rpartition(b"/")[0] for value in transaction.values}
        assert len(names) == 1, f"partition {transaction.partition}: {names} are one transaction"
        (name,) = names
        assert transaction.committed is not None, f"{name!r} hangs in partition {transaction.partition}"
        if transaction.committed:
            assert transaction.partition not in found[name], f"{name!r} is twice in partition {transaction.partition}"
            found[name][transaction.partition] = transaction.values
    for attempt in workload.attempts:
        _check_attempt(attempt, found.pop(attempt.name, {}))
    assert not found, f"nobody has written {list(found)}"
    open_now = hanging(workload.cluster, "t", PARTITIONS)
    assert not open_now, f"readers of committed records are held up: {open_now}"


def _check_attempt(attempt: Attempt, visible: dict[int, list[bytes]]) -> None:
    """Check that an attempt is visible as a whole, once and in order, or not at all."""
    accepted = {partition: values for partition, values in attempt.accepted.items() if values}
    sure = {
        partition: left
        for partition, values in visible.items()
        if (left := [value for value in values if value not in attempt.doubtful])
    }
    assert attempt.outcome is not False or not visible, f"{attempt.name!r} was aborted, and {visible} is visible"
    if attempt.outcome or visible:
        assert sure == accepted, f"{attempt.name!r}, outcome {attempt.outcome}: {accepted} written, {visible} visible"


def _check_offsets(workload: Workload, ids: range) -> None:
    for which in ids:
        mine = [each for each in workload.attempts if each.name.startswith(b"%d/" % which) and each.offset is not None]
        group = workload.cluster._running.groups.entry(f"g-{which}")
        committed = {where: found.offset for where, found in group.offsets.items()} if group else {}
        offset = committed.get(("t", 0))
        allowed = {each.offset for each in mine if each.outcome is not False}
        assert offset is None or offset in allowed, f"{offset} is committed, {sorted(map(str, allowed))} were sent"
        sure = [each.offset or 0 for each in mine if each.outcome]
        assert not sure or max(sure) <= (offset or -1), f"{max(sure)} was committed, and {offset} is"
