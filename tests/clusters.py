"""One interface over the embedded broker and real Kafka, so that one behaviour suite runs on both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal, Protocol

from tests.kafka.config import HEARTBEAT_MS
from tests.kafka.pool import RunningKafka

if TYPE_CHECKING:
    from aiokproto.broker import Cluster as Embedded
    from aiokproto.broker.control.releases import AsVersion

Kind = Literal["embedded", "kafka"]


class BehaviourCluster(Protocol):
    """A running cluster. Each method returns once its effect is visible at every broker that runs."""

    kind: Kind
    bootstrap_servers: str
    broker_ids: tuple[int, ...]

    async def create_topic(
        self, name: str, partitions: int = 1, replication: int | None = None, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic. If ``replication`` isn't given, it has as many replicas as the cluster was made for."""
        ...

    async def move_leader(self, topic: str, partition: int) -> int:
        """Make another broker lead the partition, and return its id. A second broker must be running."""
        ...

    async def stop_broker(self, node_id: int) -> None: ...

    async def start_broker(self, node_id: int) -> None: ...


class EmbeddedCluster:
    """The embedded broker's own interface, without the parts that real Kafka doesn't have."""

    kind: Kind = "embedded"

    def __init__(self, cluster: Embedded, replication: int) -> None:
        self._cluster = cluster
        self._replication = replication
        self.bootstrap_servers = cluster.bootstrap_servers
        self.broker_ids = tuple(cluster.broker_ids)

    async def create_topic(
        self, name: str, partitions: int = 1, replication: int | None = None, config: Mapping[str, str] | None = None
    ) -> None:
        await self._cluster.create_topic(name, partitions, replication or self._replication, config)

    async def move_leader(self, topic: str, partition: int) -> int:
        return await self._cluster.move_leader(topic, partition)

    def end_offset(self, topic: str, partition: int) -> int:
        return self._cluster.partition(topic, partition).end_offset

    def diverge_log(self, topic: str, partition: int, to_offset: int) -> None:
        self._cluster.diverge_log(topic, partition, to_offset)

    async def stop_broker(self, node_id: int) -> None:
        await self._cluster.stop_broker(node_id)

    async def start_broker(self, node_id: int) -> None:
        await self._cluster.start_broker(node_id)


class RealCluster:
    """Real Kafka, driven from a worker thread, so that the test's loop (and the client on it) continues meanwhile."""

    kind: Kind = "kafka"

    def __init__(self, cluster: RunningKafka, replication: int) -> None:
        # The import is here because it needs the codec. If the codec cannot be imported, the other tests must still
        # run.
        from tests.kafka import admin

        self._admin = admin
        self._cluster = cluster
        self._replication = replication
        self.bootstrap_servers = cluster.bootstrap_servers
        self.broker_ids = tuple(cluster.broker_ids)

    async def create_topic(
        self, name: str, partitions: int = 1, replication: int | None = None, config: Mapping[str, str] | None = None
    ) -> None:
        replicas = replication or self._replication
        await asyncio.to_thread(self._admin.create_topic, self._cluster, name, partitions, replicas, config)

    async def move_leader(self, topic: str, partition: int) -> int:
        return await asyncio.to_thread(self._admin.move_leader, self._cluster, topic, partition)

    async def replicas(self, topic: str, partition: int) -> tuple[int, int]:
        """Return the leader and the follower of a partition that has two replicas."""
        leader, (follower,) = await asyncio.to_thread(self._admin.replicas, self._cluster, topic, partition)
        return leader, follower

    async def elect_unclean(self, topic: str, partition: int, leader: int, follower: int) -> None:
        """Kill the leader and let the follower, which was stopped before, lead."""
        await asyncio.to_thread(self._cluster.stop_broker, leader, hard=True)
        await self.start_broker(follower)
        elected = await asyncio.to_thread(self._admin.elect_unclean, self._cluster, topic, partition)
        assert elected == follower

    async def stop_broker(self, node_id: int) -> None:
        await asyncio.to_thread(self._cluster.stop_broker, node_id)

    async def start_broker(self, node_id: int) -> None:
        await asyncio.to_thread(self._cluster.start_broker, node_id)

    async def restore(self) -> None:
        """Start the brokers again that the test has stopped: the next test expects a whole cluster."""
        for node_id in set(self._cluster.broker_ids) - self._cluster.running:
            await self.start_broker(node_id)


@asynccontextmanager
async def embedded_cluster(
    brokers: int, *, replication: int = 1, as_version: AsVersion | None = None
) -> AsyncIterator[BehaviourCluster]:
    from aiokproto.broker import Cluster

    # These are the same as in tests/kafka/config.py: short waits, and only the topics that a test creates.
    config: dict[str, str | int] = {
        "auto.create.topics.enable": "false",
        "group.min.session.timeout.ms": 500,
        "group.consumer.min.session.timeout.ms": 500,
        "group.consumer.min.heartbeat.interval.ms": 100,
        "group.consumer.heartbeat.interval.ms": HEARTBEAT_MS,
        "group.share.min.heartbeat.interval.ms": 100,
        "group.share.heartbeat.interval.ms": HEARTBEAT_MS,
        "group.streams.heartbeat.interval.ms": HEARTBEAT_MS,
        "group.share.min.record.lock.duration.ms": 1000,
        "log.cleaner.backoff.ms": 500,
    }
    racks = [f"rack-{number}" for number in range(brokers)]
    async with Cluster(brokers=brokers, config=config, racks=racks, as_version=as_version) as cluster:
        yield EmbeddedCluster(cluster, replication)


@asynccontextmanager
async def real_cluster(cluster: RunningKafka, *, replication: int = 1) -> AsyncIterator[BehaviourCluster]:
    real = RealCluster(cluster, replication)
    try:
        yield real
    finally:
        await real.restore()
