"""How many round trips calls take, over links with a latency, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Cluster
from aiokproto.simulation import Simulation
from aiokproto.types import RecordMetadata

ONE_WAY = 0.020
ROUND_TRIP = 2 * ONE_WAY
SLACK = 0.001
"""Seconds that a call may take beyond its round trips, because the work of brokers and clients takes no virtual
time."""

Program = Callable[[Simulation, Cluster, Producer], Awaitable[float]]


def run(program: Program, **options: Any) -> float:
    """Run a program with a producer that has sent a record, over a link with that latency."""
    simulation = Simulation(1)

    async def main() -> float:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t")
            async with Producer(bootstrap_servers=cluster.bootstrap_servers, **options) as producer:
                await producer.send("t", b"first")
                for link in simulation.network.links():
                    link.delay(ONE_WAY, ONE_WAY)
                return await program(simulation, cluster, producer)

    return simulation.run(main())


@pytest.mark.parametrize("linger_ms", [0, 5])
def test_a_record_that_is_awaited_takes_one_round_trip_and_its_linger(linger_ms: int) -> None:
    """The same is true with headers: no thread and no buffer adds a delay."""

    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> float:
        began = simulation.time()
        for number in range(10):
            await producer.send("t", b"%d" % number, headers=[("trace", b"1")])
        return (simulation.time() - began) / 10

    expected = ROUND_TRIP + linger_ms / 1000
    assert expected <= run(program, linger_ms=linger_ms) <= expected + SLACK


def test_five_batches_of_a_partition_share_a_round_trip() -> None:
    """No batch waits for the response to an earlier one, and the order stays."""

    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> float:
        began = simulation.time()
        outcomes = await producer.send_many("t", [b"%03d" % number + bytes(900) for number in range(50)])
        assert [outcome.offset for outcome in outcomes if isinstance(outcome, RecordMetadata)] == list(range(1, 51))
        return simulation.time() - began

    one, five = (
        run(program, batch_size=1000, linger_ms=0, max_request_size=1000, max_in_flight_requests_per_connection=most)
        for most in (1, 5)
    )
    assert one >= 50 * ROUND_TRIP
    assert five <= 11 * ROUND_TRIP


def test_a_waiting_consumer_gets_a_record_as_soon_as_the_broker_has_it() -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> float:
        async with Consumer("t", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="latest") as consumer:
            waiting = asyncio.ensure_future(anext(consumer))
            await asyncio.sleep(10)
            began = simulation.time()
            sent = asyncio.create_task(producer.send("t", b"new"))
            await waiting
            took = simulation.time() - began
            await sent
            return took

    assert run(program, linger_ms=0) <= ROUND_TRIP + SLACK
