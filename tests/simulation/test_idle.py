"""Clients without work do nothing, and their past work leaves nothing behind, in virtual time."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

import aiokproto
from aiokproto import Consumer, Producer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from aiokproto.simulation import Simulation
from tests.simulation.members import own_tasks

SOURCES = Path(aiokproto.__file__).parent
PARTITIONS = 1000
MINUTE = 60.0
IDLE = 20.0
"""Seconds that a consumer is watched."""
LITTLE = 10_000
"""A few bytes: one object kept for each of some 2,000 requests would take ten times as much."""


@pytest.mark.parametrize("group", [None, "g"])
def test_an_idle_consumer_costs_little(group: str | None) -> None:
    """Its fetches name none of a thousand partitions, because they have sessions, and no task spins."""
    simulation = Simulation(1)

    async def main() -> tuple[int, int, int]:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", PARTITIONS)
            options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": group}
            async with Consumer("t", **options) as consumer:
                await consumer.poll(5000)
                assert len(consumer.assignment()) == PARTITIONS
                before, turns = consumer.stats(), simulation.loop.turns
                assert await consumer.poll(IDLE * 1000) == []
                after = consumer.stats()
                return (
                    after.client.requests - before.client.requests,
                    after.client.bytes_sent - before.client.bytes_sent,
                    simulation.loop.turns - turns,
                )

    requests, sent, turns = simulation.run(main())
    # A fetch is held back for half a second. Heartbeats and metadata come on top.
    assert requests <= 2.5 * IDLE
    partitions = [FetchPartition(partition=number) for number in range(PARTITIONS)]
    whole = len(FetchRequest(topics=[FetchTopic(partitions=partitions)]).encode(FetchRequest.versions.highest))
    assert sent < requests * whole / 100
    assert turns < 20 * requests


def client_memory() -> int:
    """Return the bytes in use that the clients' code has allocated. The broker is in this process too."""
    gc.collect()
    others = [tracemalloc.Filter(False, f"{SOURCES}/{folder}/*") for folder in ("broker", "simulation")]
    snapshot = tracemalloc.take_snapshot().filter_traces([tracemalloc.Filter(True, f"{SOURCES}/*"), *others])
    return sum(statistic.size for statistic in snapshot.statistics("filename"))


async def work(simulation: Simulation, cluster: Cluster, producer: Producer, consumer: Consumer) -> None:
    """Work for a quarter of an hour with records, cancelled calls, lost connections, and a second member."""
    for _ in range(5):
        for _ in range(3):
            await producer.send_many("t", [bytes(100)] * 20)
            for _ in range(10):
                await consumer.poll(100)
            cancelled = asyncio.ensure_future(anext(consumer))
            await asyncio.sleep(MINUTE - 1)
            cancelled.cancel()
            await asyncio.wait([cancelled])
        for link in simulation.network.links():
            link.reset()
    async with Consumer("t", bootstrap_servers=cluster.bootstrap_servers, group_id="g") as other:
        await asyncio.gather(other.poll(5000), consumer.poll(5000))


@pytest.mark.extended
def test_clients_that_run_for_long_need_no_more_memory() -> None:
    simulation = Simulation(1)

    async def main() -> tuple[list[int], list[list[str]]]:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", 4)
            options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers}
            async with Producer(**options) as producer, Consumer("t", group_id="g", **options) as consumer:
                sizes, tasks = list[int](), list[list[str]]()
                tracemalloc.start()
                try:
                    # Caches have grown to their size after the first.
                    for _ in range(3):
                        await work(simulation, cluster, producer, consumer)
                        sizes.append(client_memory())
                        tasks.append(sorted(own_tasks()))
                finally:
                    tracemalloc.stop()
                return sizes, tasks

    sizes, tasks = simulation.run(main())
    assert tasks[2] == tasks[1]
    # One measurement can find one buffer less in use. Objects that are kept for each request show above both.
    assert sizes[2] - max(sizes[:2]) < LITTLE, sizes
