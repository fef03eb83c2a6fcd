"""Members of a group in virtual time: one broker, a topic with records, and the arguments of callbacks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiokproto import Consumer, Producer
from aiokproto.broker import Cluster
from aiokproto.simulation import Simulation
from aiokproto.types import TopicPartition

Program = Callable[[Simulation, Cluster, dict[str, Any]], Awaitable[None]]


def run(program: Program, release: str | None = None) -> None:
    """Run a program with a cluster of one broker, whose topic t has two partitions with five records each.

    With ``release``, the broker serves only the versions that this release of Kafka did.
    """
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(
            1, auto_create_topics=False, as_version=release, config={"group.min.session.timeout.ms": 500}
        ) as cluster:
            await cluster.create_topic("t", 2)
            async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                for number in range(10):
                    await producer.send("t", b"%d" % number, partition=number % 2)
            options: dict[str, Any] = {
                "bootstrap_servers": cluster.bootstrap_servers,
                "group_id": "g",
                "auto_offset_reset": "earliest",
                "heartbeat_interval_ms": 200,
                "session_timeout_ms": 3000,
            }
            await program(simulation, cluster, options)

    simulation.run(main())


class Events:
    """The arguments of the rebalance callbacks, in order."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def listeners(self) -> dict[str, Any]:
        def listener(name: str) -> Callable[[list[TopicPartition]], None]:
            return lambda partitions: self.seen.append((name, len(partitions)))

        return {f"on_{name}": listener(name) for name in ("assigned", "revoked", "lost")}


@asynccontextmanager
async def subscribed(options: dict[str, Any], **listeners: Any) -> AsyncIterator[Consumer]:
    consumer = Consumer(**options)
    consumer.subscribe("t", **listeners)
    async with consumer:
        yield consumer


def member_of(cluster: Cluster) -> str:
    """The id of the only member of group g."""
    group = cluster.group("g")
    assert group is not None
    (member,) = group.members
    return member


def own_tasks() -> list[str]:
    """The names of the clients' tasks that still run."""
    return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("aiokproto")]
