"""Topics, members, leaders and connections come and go, and the memory of clients doesn't grow with their number."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any

import pytest

from aiokproto import Client, Consumer, ExactlyOnce, Producer, ShareConsumer
from aiokproto.broker import Cluster
from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest
from aiokproto.errors import UnknownTopicError
from aiokproto.simulation import Simulation
from tests.simulation.everything import FAST
from tests.simulation.reachable import held_items
from tests.simulation.sharing import OPTIONS
from tests.simulation.world import until

SETTLED = 20.0
"""Seconds after which the metadata has forgotten topics that no longer exist."""
SAMPLES = 4
"""The number of measurements. The smallest one counts, because requests and records are on their way at any time."""
EVERYTHING = ("producer", "transactions", "classic", "consumer", "alone", "share", "session")


class Clients:
    """Clients that read and write every topic that exists.

    Attributes:
        all: The clients by name.
        read: How many records each client has read, by name.
    """

    def __init__(self, servers: str, stack: AsyncExitStack) -> None:
        self.all: dict[str, Any] = {}
        self.read: Counter[str] = Counter()
        self._stack = stack
        self._options: dict[str, Any] = {
            "bootstrap_servers": servers,
            "metadata_max_age_ms": 500,
            # This is longer than it takes to notice that a topic was deleted.
            "metadata_max_idle_ms": 8000,
        }
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, names: tuple[str, ...]) -> None:
        for name in names:
            self.all[name] = client = getattr(self, f"_{name}")()
            await self._stack.enter_async_context(client)
            if (work := self._work(name, client)) is not None:
                self._tasks.append(asyncio.create_task(work, name=name))

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def have_read_more(self, before: Counter[str], names: Collection[str]) -> bool:
        """Return whether these clients have read more since then. Raise the error that has ended a client."""
        for task in self._tasks:
            if task.done():
                task.result()
        return all(self.read[name] > before[name] for name in names)

    async def connect(self, brokers: Collection[int]) -> None:
        """Let each client have a connection to each broker, because some would connect to one of them late, or
        never."""
        owners, found = [*self.all.values()], 0
        for owner in owners:
            for name, part in vars(owner).items():
                if isinstance(part, ClusterClient):
                    await asyncio.gather(*map(part.broker_versions, brokers))
                    found += 1
                elif name in ("_engine", "_consumer", "_producer"):
                    owners.append(part)
        assert found >= len(self.all)

    async def write(self, topic: str) -> None:
        await self.all["producer"].send(topic, b"x")
        if "transactions" in self.all:
            async with self.all["transactions"].transaction() as txn:
                await txn.post(topic, b"x")

    def _producer(self) -> Producer:
        return Producer(**self._options, compression_type="gzip")

    def _transactions(self) -> Producer:
        return Producer(**self._options, transactional_id="t")

    def pattern(self, group: str | None, protocol: Any = "classic", **options: Any) -> Consumer:
        settings: dict[str, Any] = {**self._options, "auto_offset_reset": "earliest", **options}
        if group is not None:
            settings |= {"group_id": group, "group_protocol": protocol}
        if protocol == "classic":
            settings |= {"heartbeat_interval_ms": 500}
        consumer = Consumer(**settings)
        consumer.subscribe(pattern=r"in\..*")
        return consumer

    def _classic(self) -> Consumer:
        return self.pattern("classic")

    def _consumer(self) -> Consumer:
        return self.pattern("consumer", "consumer")

    def _alone(self) -> Consumer:
        return self.pattern(None)

    def _run(self) -> Consumer:
        return self.pattern("run")

    def _share(self) -> ShareConsumer:
        return ShareConsumer("in.stable", **self._options, group_id="share")

    def _session(self) -> ExactlyOnce:
        consumer = self.pattern("session", enable_auto_commit=False, isolation_level="read_committed")
        return ExactlyOnce(consumer, Producer(**self._options, transactional_id="session"))

    def _work(self, name: str, client: Any) -> Any:
        if name == "session":
            return self._process(client)
        if name == "run":
            return self._handle(client)
        return self._poll(name, client) if hasattr(client, "poll") else None

    async def _poll(self, name: str, client: Any) -> None:
        while True:
            # The topic no longer exists.
            with suppress(UnknownTopicError):
                self.read[name] += len(await client.poll(200))

    async def _handle(self, consumer: Consumer) -> None:
        async def handler(record: object) -> None:
            self.read["run"] += 1

        while True:
            with suppress(UnknownTopicError):
                await consumer.run(handler)

    async def _process(self, session: ExactlyOnce) -> None:
        while True:
            with suppress(UnknownTopicError):
                async for records, txn in session.batches():
                    await txn.post("out", b"x")
                    self.read["session"] += len(records)


async def rounds(
    simulation: Simulation, cluster: Cluster, clients: Clients, numbers: Iterator[int], count: int
) -> None:
    """Let a topic, a member and the leaders of others come and go that often."""
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as admin:
        for _ in range(count):
            topic = f"in.{next(numbers)}"
            await cluster.create_topic(topic)
            before = clients.read.copy()
            await clients.write(topic)
            readers = [name for name in clients.all if name not in ("producer", "transactions", "share")]
            await until(partial(clients.have_read_more, before, readers))
            if "share" in clients.all:
                clients.all["share"].subscribe("in.stable", topic)
                # A share group starts at the end of the log.
                while clients.read["share"] == before["share"]:
                    await clients.write(topic)
                    await asyncio.sleep(0.5)
                clients.all["share"].subscribe("in.stable")
            if len(cluster.broker_ids) > 1:
                async with clients.pattern("consumer", "consumer") as member:
                    await member.poll(1000)
                for partition in range(2):
                    await cluster.move_leader("in.stable", partition)
                for link in simulation.network.links():
                    link.reset()
                await clients.write("in.stable")
            await admin.request(DeleteTopicsRequest(topic_names=[topic], timeout_ms=5000), max_version=5)
            await asyncio.sleep(1)


async def least_held(clients: Clients) -> Counter[str]:
    await asyncio.sleep(SETTLED)
    samples = []
    for _ in range(SAMPLES):
        samples.append(held_items(clients.all))
        await asyncio.sleep(0.37)
    return Counter({place: min(sample[place] for sample in samples) for place in samples[0]})


def grown(names: tuple[str, ...], brokers: int, few: int) -> dict[str, tuple[int, int]]:
    """Return the attributes that hold more after three times as many rounds, with both numbers."""
    simulation = Simulation(1)

    async def main() -> dict[str, tuple[int, int]]:
        options: dict[str, Any] = {**FAST, **OPTIONS}
        async with Cluster(brokers, auto_create_topics=False, config=options) as cluster, AsyncExitStack() as stack:
            await cluster.create_topic("in.stable", 2, brokers)
            await cluster.create_topic("out")
            clients = Clients(cluster.bootstrap_servers, stack)
            await clients.start(names)
            for partition in range(2):
                await clients.all["producer"].send("in.stable", b"x", partition=partition)
            numbers = iter(range(1000))
            await rounds(simulation, cluster, clients, numbers, few)
            await clients.connect(cluster.broker_ids)
            before = await least_held(clients)
            await rounds(simulation, cluster, clients, numbers, 2 * few)
            await clients.connect(cluster.broker_ids)
            after = await least_held(clients)
            await clients.end()
            assert before["producer Sinks._sinks"] == brokers, "what is held is found"
            return {place: (before[place], count) for place, count in after.items() if count > before[place]}

    return simulation.run(main())


def test_what_a_producer_and_a_consumer_hold_does_not_grow_with_the_topics_they_have_seen() -> None:
    assert grown(("producer", "alone"), 1, 1) == {}


@pytest.mark.extended
def test_what_clients_hold_does_not_grow_with_topics_members_leaders_and_connections_that_come_and_go() -> None:
    assert grown(EVERYTHING, 2, 2) == {}
