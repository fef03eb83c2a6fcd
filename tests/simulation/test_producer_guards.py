"""Single guards of the producer, each in the schedule that it is there for."""

from __future__ import annotations

import asyncio

import pytest

from aiokproto import Producer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.simulation import Simulation
from tests.simulation.test_producers import run
from tests.simulation.world import stored_records

LARGE = 80_000
"""Bytes of a record that is compressed in a thread."""


@pytest.mark.parametrize("acks", ["all", 1])
def test_small_batches_stay_behind_a_large_one_that_is_compressed_in_a_thread(acks: str | int) -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        for size in (1, LARGE, 1, LARGE, 2, 1):
            waiting = [await producer.post("t", bytes(size), partition=0)]
            await asyncio.sleep(0)
        for _ in range(20):
            waiting += [await producer.post("t", bytes(LARGE), partition=0)]
            await asyncio.sleep(0)
            waiting += [await producer.post("t", b"x", partition=0)]
            await asyncio.sleep(0)
        for delivery in waiting:
            await delivery
        sizes = [len(value or b"") for _, value in stored_records(cluster, "t", 0)]
        assert sizes[1:] == [1, LARGE, 1, LARGE, 2, 1] + [LARGE, 1] * 20
        # An overtaken batch that the broker refuses, and gets again, is no order that is kept.
        assert all(not queue.producer[1] > 0 for queue in producer._accumulator.topics["t"].queues)

    run(program, acks=acks, compression_type="lz4", linger_ms=0, batch_size=1000)


def test_a_broker_that_has_not_answered_gets_no_second_request() -> None:
    """What comes meanwhile goes out together, when it has."""
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", 3)
            async with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
                with cluster.faults.watch(ProduceRequest) as seen, cluster.faults.delay(ProduceRequest, 0.5):
                    waiting = []
                    for partition in range(3):
                        waiting.append(await producer.post("t", b"x", partition=partition))
                        await asyncio.sleep(0.1)
                    for delivery in waiting:
                        await delivery
                    assert seen.happened == 2

    simulation.run(main())


def test_a_broker_that_closes_connections_is_tried_less_and_less_often() -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        with cluster.faults.cut(ProduceRequest) as seen:
            waiting = await producer.post("t", b"x", partition=0)
            await asyncio.sleep(10)
            assert 5 < seen.happened < 40
        await waiting

    run(program, linger_ms=0, retry_backoff_ms=100, retry_backoff_max_ms=1000)
