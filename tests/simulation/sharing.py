"""Members of a share group under faults, and their guarantees."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from random import Random
from typing import Any, TypeVar

from aiokproto import Client, ShareConsumer
from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.broker.share.in_flight import InFlightRun, RecordState
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokproto.codec.messages.share_fetch import ShareFetchRequest
from aiokproto.codec.schema import Response
from aiokproto.errors import BootstrapError, DeadlineError, UnknownTopicError
from aiokproto.share import Acknowledgement, AcknowledgeOutcome, ShareRecord
from aiokproto.simulation import Simulation
from tests.simulation.environment import (
    Environment,
    check_no_task_is_left,
    in_time,
    live_until_nothing_is_missing,
    run_within_turns,
)
from tests.simulation.faults import Fault, carry_out, draw, stalled

BROKERS, PARTITIONS, UNTIL = 3, 3, 10.0
APIS = ("ShareFetch", "ShareAcknowledge", "ShareGroupHeartbeat", "FindCoordinator", "Metadata")
RECORDS = 80
LOCK = 2.0
SLACK = 1.0
"""Virtual seconds that a call may take beyond its deadline."""
DELIVERIES = 5
ALL_DONE_WITHIN = 240.0
"""Virtual seconds after the last fault within which nothing is left in the queue."""

OPTIONS = {
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.min.heartbeat.interval.ms": 300,
    "group.share.heartbeat.interval.ms": 300,
    "group.share.min.session.timeout.ms": 3000,
    "group.share.session.timeout.ms": 3000,
}
"""Options of brokers: short times."""

OWN_TASKS = ("aiokproto-share",)

Where = tuple[int, int]
T = TypeVar("T")


class Ledger:
    """The records that the members received and acknowledged.

    Attributes:
        written: The values in the log.
        done: Records whose acceptance or rejection was confirmed.
        maybe: Records that were accepted or rejected with an error as the outcome, so that they may be done.
        counts: The highest delivery count with which a record was acquired, as the brokers reported.
        deliveries: How often a record was delivered.
    """

    def __init__(self) -> None:
        self.written: dict[Where, bytes] = {}
        self.done: set[Where] = set()
        self.maybe: set[Where] = set()
        self.counts: dict[Where, int] = defaultdict(int)
        self.deliveries: dict[Where, int] = defaultdict(int)

    def outcomes(self, outcomes: Sequence[AcknowledgeOutcome]) -> None:
        """Take the outcomes of acknowledgements."""
        for each in outcomes:
            if each.acknowledgement in (Acknowledgement.ACCEPT, Acknowledgement.REJECT):
                where = {(each.partition, offset) for offset in range(each.first_offset, each.last_offset + 1)}
                (self.done if each.ok else self.maybe).update(where)

    async def watch(self, call: RequestInfo, serve: Serve) -> Response | None:
        """Record what brokers say they have acquired."""
        response: Any = await serve(call.request)
        for topic in response.responses if response is not None else ():
            for part in topic.partitions:
                for each in part.acquired_records:
                    for offset in range(each.first_offset, each.last_offset + 1):
                        where = (part.partition_index, offset)
                        self.counts[where] = max(self.counts[where], each.delivery_count)
        return response  # type: ignore[no-any-return]


class Member:
    """One share consumer, from its start to its end."""

    def __init__(
        self, simulation: Simulation, cluster: Cluster, ledger: Ledger, faults: list[Fault], *, diligent: bool = False
    ) -> None:
        self._simulation = simulation
        self._random = random = simulation.random
        self._cluster = cluster
        self._ledger = ledger
        self._calm = not faults
        self._slack = SLACK + stalled(faults)
        self._diligent = diligent
        self._explicit = random.random() < 0.5
        self._stopped = False
        self.consumer = ShareConsumer(
            "t",
            bootstrap_servers=cluster.bootstrap_servers,
            group_id="g",
            acknowledgement_mode="explicit" if self._explicit else "implicit",
            on_acknowledged=ledger.outcomes,
            share_acquire_mode=random.choice(("batch_optimized", "record_limit")),
            max_poll_records=random.choice((1, 5, 500)),
            acknowledge_linger_ms=random.choice((0, 100, 1000)),
            renew_locks=random.random() < 0.7,
            max_processing_ms=random.choice((3000, 60_000)),
            fetch_max_wait_ms=random.choice((200, 500)),
            request_timeout_ms=2000,
        )
        self._kept: list[ShareRecord] = []

    def stop(self) -> None:
        """Close soon."""
        self._stopped = True

    async def live(self, until: float) -> None:
        """Read and acknowledge until that virtual time; then close."""
        try:
            await self.consumer.start()
        except BootstrapError:
            assert not self._calm, "without a fault, brokers can be reached"
            return
        try:
            if self._random.random() < 0.3:
                await self._run(until)
            while self._simulation.time() < until and not self._stopped:
                await self._act()
        finally:
            # The consumer sees an exception leave the block now and then.
            if self._random.random() < 0.3:
                try:
                    raise RuntimeError("the application fails")
                except RuntimeError:
                    closing = self.consumer.close(5000)
            else:
                closing = self.consumer.close(5000)
            await self._in_time(closing, 5.0, "close")

    async def _act(self) -> None:
        for record in await self._read():
            await self._process(record)
        if self._random.random() < 0.2:
            await self._commit()

    async def _read(self) -> list[ShareRecord]:
        way, timeout = self._random.choice(("poll", "next", "batch")), self._random.choice((0.0, 0.1, 1.0))
        try:
            if way == "poll":
                least, count = self._random.choice(((1, 1), (1, 5), (4, 20), (1, None)))
                poll = self.consumer.poll(timeout * 1000, count, min_records=least)
                records = await self._in_time(poll, timeout, way)
            elif way == "next":
                records = [await self._in_time(asyncio.wait_for(anext(self.consumer), timeout), timeout, way)]
            else:
                batches = self.consumer.batches()
                records = list(await self._in_time(asyncio.wait_for(anext(batches), timeout), timeout, way))
        except asyncio.TimeoutError:
            return []
        except UnknownTopicError:
            assert not self._calm, "without a fault, the topic is known"
            return []
        for record in records:
            self._received(record)
        return records

    def _received(self, record: ShareRecord) -> None:
        where = (record.partition, record.offset)
        self._ledger.deliveries[where] += 1
        assert where not in self._ledger.done, f"{record} was delivered, and is acknowledged"
        assert self._simulation.loop.time() < record.lock_deadline, f"{record} was delivered without its lock"
        assert self._ledger.written[where] == record.value, f"{record} is not in the log"
        assert 1 <= record.delivery_count <= self._ledger.counts[where]
        if self._calm:
            run = self._in_flight(where)
            assert run is not None, f"{record} was delivered, and is not in flight"
            assert run.state is RecordState.ACQUIRED, f"{record} was delivered, and is {run.state.name}"
            assert run.member_id == self.consumer._engine.member.member_id, f"{record} is another member's"
            assert run.delivery_count == record.delivery_count, f"{record}: delivery {run.delivery_count}"

    def _in_flight(self, where: Where) -> InFlightRun | None:
        partition, offset = where
        for (_, (_, number)), cached in self._cluster._running.shares._cache.items():
            if number == partition:
                return next((run for run in cached.share.runs if run.first <= offset <= run.last), None)
        return None

    async def _process(self, record: ShareRecord) -> None:
        random = self._random
        await asyncio.sleep(0 if self._diligent else random.choice((0, 0, 0, 0.01, 0.1, 0.1, 1.5 * LOCK)))
        if not self._explicit and random.random() < 0.8:
            # The next read accepts the records.
            return
        choices: list[Callable[..., bool]] = [self.consumer.accept] * 6
        if not self._diligent:
            choices += [self.consumer.release, self.consumer.reject, self._keep, self.consumer.renew]
        random.choice(choices)(record)
        if self._kept and random.random() < 0.5:
            self.consumer.accept(self._kept.pop())

    def _keep(self, record: ShareRecord) -> bool:
        self._kept.append(record)
        return True

    async def _commit(self) -> None:
        timeout = self._random.choice((0.05, 2.0))
        try:
            outcomes = await self._in_time(self.consumer.commit(timeout * 1000), timeout, "commit")
        except DeadlineError:
            return
        if self._calm:
            lock_errors = [each for each in outcomes if each.error is not None]
            assert all("lock" in str(each.error) for each in lock_errors), lock_errors

    async def _run(self, until: float) -> None:
        async def handle(record: ShareRecord) -> None:
            self._received(record)
            await asyncio.sleep(self._random.choice((0, 0.01, 0.3)))
            if self._random.random() < 0.1:
                raise ValueError("not this one")

        running = asyncio.ensure_future(
            self.consumer.run(
                handle, concurrency=self._random.choice((1, 4)), redelivery_backoff_ms=100, drain_timeout_ms=500
            )
        )
        await asyncio.wait([running], timeout=max(until - self._simulation.time(), 0) * self._random.random())
        running.cancel()
        began = self._simulation.time()
        await asyncio.wait([running])
        assert self._simulation.time() - began <= 0.5 + self._slack
        if not running.cancelled():
            error = running.exception()
            assert isinstance(error, UnknownTopicError), error
            assert not self._calm

    async def _in_time(self, call: Awaitable[T], seconds: float, name: str) -> T:
        return await in_time(call, name, seconds, self._slack)


def schedule(seed: int) -> list[Fault]:
    random = Random(f"{seed}/faults")
    faults = [draw(random, UNTIL, BROKERS, PARTITIONS, APIS) for _ in range(random.choice((0, 1, 2, 3, 5)))]
    # There is no producer, so nothing could tell which records a broken replication has lost.
    return [fault for fault in faults if fault.kind != "lose_tail"]


def run(seed: int, faults: list[Fault]) -> Simulation:
    """Share records under these faults. Raise AssertionError if a guarantee is violated."""
    return run_within_turns(seed, lambda simulation: _program(simulation, faults))


async def _program(simulation: Simulation, faults: list[Fault]) -> None:
    random, ledger = simulation.random, Ledger()
    async with Cluster(BROKERS, auto_create_topics=False, config=OPTIONS) as cluster:
        await cluster.create_topic("t", PARTITIONS, replication=BROKERS)
        await configure(cluster)
        environment = Environment(simulation, cluster, "t")
        cluster.faults.intercept(ShareFetchRequest, ledger.watch)

        async def come_and_go() -> None:
            await asyncio.sleep(random.uniform(0, UNTIL / 3))
            for _ in range(random.randint(1, 2)):
                until = simulation.time() + random.uniform(0.5, UNTIL / 2)
                await Member(simulation, cluster, ledger, faults).live(until)

        happening = asyncio.create_task(carry_out(environment, faults))
        try:
            await asyncio.gather(
                _produce(environment, ledger, random), *(come_and_go() for _ in range(random.randint(1, 3)))
            )
            await happening
            await _finish(simulation, cluster, ledger, faults)
        finally:
            happening.cancel()
        check_no_task_is_left(OWN_TASKS)


async def configure(cluster: Cluster) -> None:
    """Set the group's options."""
    options = {
        "share.auto.offset.reset": "earliest",
        "share.record.lock.duration.ms": f"{LOCK * 1000:.0f}",
        "share.delivery.count.limit": f"{DELIVERIES}",
    }
    configs = [AlterableConfig(name=name, config_operation=0, value=value) for name, value in options.items()]
    resource = AlterConfigsResource(resource_type=32, resource_name="g", configs=configs)
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        response = await client.request(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
        assert response.responses[0].error_code == 0


async def _produce(environment: Environment, ledger: Ledger, random: Random) -> None:
    for number in range(RECORDS):
        partition = random.randrange(PARTITIONS)
        offset = environment.cluster.partition(environment.topic, partition).end_offset
        ledger.written[partition, offset] = value = b"%d" % number
        environment.append(partition, value)
        await asyncio.sleep(random.choice((0, 0.01, 0.1)))


async def _finish(simulation: Simulation, cluster: Cluster, ledger: Ledger, faults: list[Fault]) -> None:
    """Let one more member accept the remaining records. Every record is then accepted, rejected, or delivered too
    often."""
    last = Member(simulation, cluster, ledger, faults, diligent=True)
    await live_until_nothing_is_missing(last, lambda: _missing(ledger), ALL_DONE_WITHIN)


def _missing(ledger: Ledger) -> list[Where]:
    ended = ledger.done | ledger.maybe
    return [where for where in ledger.written if where not in ended and ledger.counts[where] < DELIVERIES]
