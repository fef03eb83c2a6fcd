"""Leaders that move while a response is processed, and preferred replicas that don't serve."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest

from aiokproto import Consumer
from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.codec.messages.fetch import FetchRequest
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode
from aiokproto.simulation import Simulation
from aiokproto.types import TopicPartition
from tests.simulation.world import World

FIRST = TopicPartition("t", 0)

Program = Callable[[Simulation, Cluster, World], Awaitable[None]]


def run(program: Program) -> None:
    """Run a program with a cluster of two brokers, which are both replicas of the only partition of topic t."""
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(2) as cluster:
            await cluster.create_topic("t", 1, replication=2)
            await program(simulation, cluster, World(simulation, cluster, "t"))

    simulation.run(main())


def test_a_leader_that_moves_while_a_response_is_processed(monkeypatch: pytest.MonkeyPatch) -> None:
    # Other tasks run after each part of the response, as on a slow processor.
    monkeypatch.setattr("aiokproto.fetched.time_slice.LONG", 0.0)
    count = 8000

    async def program(simulation: Simulation, cluster: Cluster, world: World) -> None:
        for number in range(count):
            world.append(0, b"%d" % number)
        async with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            fetches = cluster.faults.watch(FetchRequest)
            consumer.assign(FIRST)
            while not str(consumer.partition_state(FIRST)).startswith("records are buffered"):
                await asyncio.sleep(0)
            to_node = await cluster.move_leader("t", 0)
            consumer._engine.cluster.metadata.update_leader("t", 0, to_node, cluster.partition("t", 0).leader_epoch)
            offsets: list[int] = []
            while len(offsets) < count:
                offsets += [record.offset for record in await consumer.poll(5000)]
            assert offsets == list(range(count))
            assert await consumer.poll(2000) == []
            world.append(0, b"last")
            assert [record.offset for record in await consumer.poll(2000)] == [count]
            assert fetches.count < 30, "partitions that are no longer wanted are not requested again and again"

    run(program)


def point_to(cluster: Cluster, follower: int) -> None:
    """Let the leader redirect consumers with a rack to a follower."""

    async def point(call: RequestInfo, serve: Serve) -> Response | None:
        answer: Any = await serve(call.request)
        if cast("FetchRequest", call.request).rack_id:
            for topic in answer.responses:
                for data in topic.partitions:
                    data.preferred_read_replica, data.records = follower, None
        return cast("Response | None", answer)

    cluster.faults.intercept(FetchRequest, point, node=cluster.leader("t", 0))


@pytest.mark.parametrize("problem", ["is unknown", "does not have the offset"])
def test_a_follower_that_cannot_be_read_from_costs_few_requests(problem: str) -> None:
    async def program(simulation: Simulation, cluster: Cluster, world: World) -> None:
        follower = 7 if problem == "is unknown" else 1 - cluster.leader("t", 0)
        point_to(cluster, follower)
        cluster.faults.fail(FetchRequest, ErrorCode.OFFSET_OUT_OF_RANGE, node=follower)
        fetches = cluster.faults.watch(FetchRequest)
        for number in range(3):
            world.append(0, b"%d" % number)
        async with Consumer(
            bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", client_rack="here"
        ) as consumer:
            consumer.assign(FIRST)
            assert [(await asyncio.wait_for(anext(consumer), 5)).offset for _ in range(3)] == [0, 1, 2]
            assert fetches.count < 50

    run(program)
