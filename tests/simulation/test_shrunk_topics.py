"""A topic that is created again with fewer partitions, while calls wait to write to it."""

from __future__ import annotations

import asyncio

import pytest

from aiokproto import Producer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, InvalidRecordError
from aiokproto.records import BatchRecord, encode
from aiokproto.simulation import Simulation
from tests.simulation.test_producers import Program, recreate

SLACK = 10.0
"""Seconds that a producer may take to learn about the new topic, and to try a refused batch again."""


def run(program: Program) -> None:
    """Run a program with a producer whose buffer holds 50 000 bytes, and the topics t, with three partitions, and
    other."""
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", 3)
            await cluster.create_topic("other", 1)
            async with Producer(
                bootstrap_servers=cluster.bootstrap_servers,
                buffer_memory=50_000,
                metadata_max_age_ms=3000,
                delivery_timeout_ms=600_000,
                max_block_ms=60_000,
            ) as producer:
                await producer.send("t", b"first", partition=2)
                await producer.send("other", b"first")
                await program(simulation, cluster, producer)

    simulation.run(main())


def test_buffer_memory_of_removed_partitions_is_given_to_waiting_calls() -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        with cluster.faults.fail(ProduceRequest, ErrorCode.NOT_ENOUGH_REPLICAS):
            lost = [await producer.post("t", bytes(10_000), partition=2) for _ in range(4)]
            waiting = asyncio.create_task(producer.send("other", bytes(10_000)))
            await asyncio.sleep(1)
            await recreate(cluster, 1)
        began = simulation.time()
        await waiting
        assert simulation.time() - began < SLACK
        for delivery in lost:
            with pytest.raises(BrokerError, match="with fewer partitions"):
                await delivery

    run(program)


def test_a_record_that_waits_for_buffer_memory_is_refused_if_its_partition_was_removed() -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        with cluster.faults.fail(ProduceRequest, ErrorCode.NOT_ENOUGH_REPLICAS):
            for _ in range(4):
                await producer.post("other", bytes(10_000))
            waiting = asyncio.create_task(producer.send("t", bytes(10_000), partition=2))
            keyed = asyncio.create_task(producer.send("t", bytes(1000), key=b"abc"))
            await asyncio.sleep(1)
            await recreate(cluster, 1)
            await asyncio.sleep(SLACK)
        with pytest.raises(InvalidRecordError, match="partition 2"):
            await waiting
        assert (await keyed).partition == 0

    run(program)


def test_a_batch_that_waits_for_buffer_memory_is_refused_if_its_partition_was_removed() -> None:
    async def program(simulation: Simulation, cluster: Cluster, producer: Producer) -> None:
        stored = encode([BatchRecord(0, 0, None, bytes(10_000))])
        with cluster.faults.fail(ProduceRequest, ErrorCode.NOT_ENOUGH_REPLICAS):
            for _ in range(4):
                await producer.post("other", bytes(10_000))
            waiting = asyncio.create_task(producer.send_batch("t", stored, partition=2))
            await asyncio.sleep(1)
            await recreate(cluster, 1)
            await asyncio.sleep(SLACK)
        began = simulation.time()
        with pytest.raises(InvalidRecordError, match="partition 2"):
            await waiting
        assert simulation.time() - began < SLACK

    run(program)
