"""Leaders that move while a response is taken in, and followers that leaders name: what is read, and how often is asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiokproto import Consumer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.fetch import FetchRequest
from aiokproto.simulation import Simulation
from aiokproto.types import TopicPartition
from tests.simulation.world import World

FIRST = TopicPartition("t", 0)

Program = Callable[[Simulation, Cluster, World], Awaitable[None]]


def run(program: Program) -> None:
    """Run a program with a cluster of two brokers; both are replicas of the only partition of topic t."""
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(2) as cluster:
            await cluster.create_topic("t", 1, replication=2)
            await program(simulation, cluster, World(simulation, cluster, "t"))

    simulation.run(main())


def test_a_leader_that_moves_while_a_response_is_taken_in(monkeypatch: pytest.MonkeyPatch) -> None:
    # Others have their turn after each part of the response, as on a slow processor.
    monkeypatch.setattr("aiokproto.consumer.turn.LONG", 0.0)
    count = 8000

    async def program(simulation: Simulation, cluster: Cluster, world: World) -> None:
        for number in range(count):
            world.append(0, b"%d" % number)
        async with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            fetches = cluster.faults.watch(FetchRequest)
            consumer.assign([FIRST])
            while not str(consumer.partition_state(FIRST)).startswith("records are buffered"):
                await asyncio.sleep(0)
            to_node = await cluster.move_leader("t", 0)
            consumer._engine.cluster.hint_leader("t", 0, to_node, cluster.partition("t", 0).leader_epoch)
            offsets: list[int] = []
            while len(offsets) < count:
                offsets += [record.offset for record in await consumer.poll(5000)]
            assert offsets == list(range(count))
            assert await consumer.poll(2000) == []
            world.append(0, b"last")
            assert [record.offset for record in await consumer.poll(2000)] == [count]
            assert fetches.happened < 30, "what is not wanted any more is not asked for again and again"

    run(program)
