"""Clients that work on a cluster all the time, and check what they read: nothing is lost or repeated, and each key is
in order.

Records have one of a few keys, and count up for each of them. Every reader therefore sees at once whether a number is
missing, comes again, or comes too early. No client is ever restarted. An exception that reaches its user ends the load.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

from aiokproto import Client, Consumer, ExactlyOnce, Producer
from aiokproto.codec.messages.create_topics import CreatableTopic, CreateTopicsRequest
from aiokproto.codec.messages.describe_cluster import DescribeClusterRequest
from aiokproto.codec.messages.describe_groups import DescribeGroupsRequest
from aiokproto.codec.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.producer import Transaction
from aiokproto.types import Record
from tests.timeouts import LONG_TIMEOUT

KEYS = [b"key %d" % number for number in range(8)]
"""Each partition has at least one of these keys, so that each reader always has something to read."""
PARTITIONS, REPLICAS = 4, 3
PLAIN, TRANSACTIONAL, COPIED = "plain", "transactional", "copied"
ABORTED = b"aborted"
PACE = 0.03
"""Seconds between the records of a key, which is the load of a service rather than the most that the machine can do."""
IN_FLIGHT = 4
"""The number of rounds of records that may be unacknowledged."""

GROUPS: dict[str, list[dict[str, Any]]] = {
    "eager": [{"partition_assignment_strategy": "range"}] * 2,
    "cooperative": [{"partition_assignment_strategy": "cooperative-sticky"}] * 2,
    "mixed": [{"partition_assignment_strategy": "cooperative-sticky"}, {"group_protocol": "auto"}],
}
"""The options of the members of each group."""


class Work:
    """What one client has done.

    Attributes:
        name: The name of the client.
        steps: The number of steps that it has done.
        longest: The longest time between two steps (s). Joining a group comes before the first.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps = 0
        self.longest = 0.0
        self._at: float | None = None

    def step(self) -> None:
        """Record that a step is done."""
        now = asyncio.get_running_loop().time()
        if self._at is not None:
            self.longest = max(self.longest, now - self._at)
        self.steps, self._at = self.steps + 1, now


Run = Callable[[Any, Work], Coroutine[Any, Any, None]]
"""Lets a client work until it is cancelled."""


class Numbers:
    """The numbers of each key in a topic, as one reader or all members of a group read them."""

    def __init__(self, name: str, source: str) -> None:
        """``source`` is the topic that the numbers, which may be copies, come from."""
        self.source = source
        self.next: Counter[bytes | None] = Counter()
        self._name = name

    def take(self, record: Record) -> None:
        """Take a record, which must be the next one of its key."""
        expected = b"%d" % self.next[record.key]
        assert record.value == expected, f"{self._name}: {record} came, not {expected!r}"
        self.next[record.key] += 1


class Load:
    """The clients, what they have written, and what they have read.

    Attributes:
        client: Requests the cluster's metadata. It is one of the clients, too.
        works: The work of each client.
    """

    def __init__(self, bootstrap_servers: str, stack: AsyncExitStack) -> None:
        """``stack`` closes the clients."""
        self.client = Client(bootstrap_servers=bootstrap_servers)
        self.works: list[Work] = []
        self._servers = bootstrap_servers
        self._stack = stack
        self._tasks: dict[str, asyncio.Task[None]] = {}
        # The number of acknowledged or committed numbers of each key, by topic.
        self._written: Counter[str] = Counter()
        self._read: dict[str, Numbers] = {}
        self._stopping = False

    async def start(self) -> None:
        """Create the topics, and start the clients."""
        await self._stack.enter_async_context(self.client)
        topics = [
            CreatableTopic(name=name, num_partitions=PARTITIONS, replication_factor=REPLICAS)
            for name in (PLAIN, TRANSACTIONAL, COPIED)
        ]
        response = await self.client.request(CreateTopicsRequest(topics=topics))
        assert not any(topic.error_code for topic in response.topics), response
        await self._work("producer", self._produce, Producer(bootstrap_servers=self._servers))
        await self._work("transactions", self._transact, self._transactional("transacting"))
        await self._work("exactly once", self._copy, ExactlyOnce(self._copied(), self._transactional("copying")))
        for topic, source in ((TRANSACTIONAL, TRANSACTIONAL), (COPIED, PLAIN)):
            self._read[topic] = Numbers(topic, source)
            reader = self._consumer(topic, isolation_level="read_committed")
            await self._work(f"reader of {topic}", partial(self._consume, self._read[topic]), reader)
        for group, members in GROUPS.items():
            self._read[group] = Numbers(group, PLAIN)
            for number, options in enumerate(members, 1):
                await self.add_member(f"{group} {number}", group, **options)
        self._spawn(self._ask, self.client, "client")

    async def add_member(self, name: str, group: str, **options: Any) -> Consumer:
        """Start one more member of a group, and return it."""
        consumer = self._consumer(PLAIN, group_id=group, **options)
        await self._work(name, partial(self._consume, self._read[group]), consumer)
        return consumer

    async def progress(self, steps: int = 3) -> None:
        """Wait until every client has done some more steps, and has read everything that was written before."""
        goals, written = {work: work.steps + steps for work in self.works}, Counter(self._written)
        await self._until(lambda: self._has_read(written) and all(work.steps >= goal for work, goal in goals.items()))

    async def replicated(self) -> None:
        """Wait until every partition of the cluster has all its replicas in sync."""

        async def replicated() -> None:
            while not all(
                len(part.isr_nodes) == REPLICAS
                for topic in (await self.client.request(MetadataRequest(topics=None))).topics
                for part in topic.partitions
            ):
                await asyncio.sleep(0.1)

        await asyncio.wait_for(replicated(), LONG_TIMEOUT)

    async def finish(self) -> None:
        """Stop writing, and wait until everything is read."""
        self._stopping = True
        writers = [self._tasks[name] for name in ("producer", "transactions")]
        await self._until(lambda: all(task.done() for task in writers))
        await self._until(lambda: self._has_read(self._written))

    async def stop(self) -> None:
        """Cancel the clients that still run."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _has_read(self, written: Counter[str]) -> bool:
        return all(numbers.next[key] >= written[numbers.source] for numbers in self._read.values() for key in KEYS)

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait for the condition. Raise the error that ended a client."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LONG_TIMEOUT
        while not condition():
            for name, task in self._tasks.items():
                if task.done() and (error := task.exception()):
                    raise AssertionError(f"{name} has ended") from error
            if loop.time() > deadline:
                read = {name: dict(numbers.next) for name, numbers in self._read.items()}
                steps = {work.name: work.steps for work in self.works}
                raise AssertionError(f"stuck: written {dict(self._written)}, read {read}, steps {steps}")
            await asyncio.sleep(0.05)

    # The clients

    def _consumer(self, topic: str, **options: Any) -> Consumer:
        given: dict[str, Any] = {
            "bootstrap_servers": self._servers,
            "auto_offset_reset": "earliest",
            # A session must not expire on a busy machine, because its records would come again.
            "session_timeout_ms": LONG_TIMEOUT * 1000,
            "auto_commit_interval_ms": 500,
        }
        return Consumer(topic, **given | options)

    def _copied(self) -> Consumer:
        return self._consumer(PLAIN, group_id="copy", enable_auto_commit=False, isolation_level="read_committed")

    def _transactional(self, name: str) -> Producer:
        return Producer(bootstrap_servers=self._servers, transactional_id=name)

    async def _work(self, name: str, run: Run, client: Any) -> None:
        await self._stack.enter_async_context(client)
        self._spawn(run, client, name)

    def _spawn(self, run: Run, client: Any, name: str) -> None:
        work = Work(name)
        self.works.append(work)
        self._tasks[name] = asyncio.create_task(run(client, work))

    async def _produce(self, producer: Producer, work: Work) -> None:
        rounds: deque[list[Any]] = deque()
        for number in itertools.count():
            if not self._stopping:
                rounds.append([await producer.post(PLAIN, b"%d" % number, key=key) for key in KEYS])
            elif not rounds:
                return
            if self._stopping or len(rounds) > IN_FLIGHT:
                for delivery in rounds.popleft():
                    await delivery
                self._written[PLAIN] += 1
                work.step()
            await asyncio.sleep(PACE)

    async def _transact(self, producer: Producer, work: Work) -> None:
        """Write in transactions, and abort every fourth one."""
        for number in itertools.count():
            if self._stopping:
                return
            aborted = number % 4 == 3
            async with producer.transaction() as txn:
                for key in KEYS:
                    value = ABORTED if aborted else b"%d" % self._written[TRANSACTIONAL]
                    await txn.post(TRANSACTIONAL, value, key=key)
                if aborted:
                    await txn.abort()
            self._written[TRANSACTIONAL] += not aborted
            work.step()
            await asyncio.sleep(PACE)

    async def _copy(self, session: ExactlyOnce, work: Work) -> None:
        async def copy(records: list[Record], txn: Transaction) -> None:
            for record in records:
                await txn.post(COPIED, record.value, key=record.key)
            work.step()

        await session.run(copy)

    async def _consume(self, numbers: Numbers, consumer: Consumer, work: Work) -> None:
        while True:
            records = await consumer.poll(timeout_ms=1000)
            for record in records:
                numbers.take(record)
            if records:
                work.step()

    async def _ask(self, client: Client, work: Work) -> None:
        """Send requests to any broker, to leaders, and to coordinators."""
        latest = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(PARTITIONS)]
        while True:
            response = await client.request(DescribeClusterRequest())
            assert response.error_code == 0, response
            ends = await client.request(ListOffsetsRequest(topics=[ListOffsetsTopic(name=PLAIN, partitions=latest)]))
            assert not any(part.error_code for topic in ends.topics for part in topic.partitions), ends
            groups = await client.request(DescribeGroupsRequest(groups=["eager", "cooperative"]))
            assert not any(group.error_code for group in groups.groups), groups
            work.step()
            await asyncio.sleep(10 * PACE)


@asynccontextmanager
async def load(bootstrap_servers: str) -> AsyncIterator[Load]:
    """Let clients work on the cluster within the block."""
    async with AsyncExitStack() as stack:
        made = Load(bootstrap_servers, stack)
        try:
            await made.start()
            yield made
        finally:
            await made.stop()
