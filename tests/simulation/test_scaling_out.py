"""A member that joins doesn't hold up the partitions that stay with their owners."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from aiokproto.codec.messages.join_group import JoinGroupRequest
from aiokproto.codec.messages.sync_group import SyncGroupRequest
from aiokproto.simulation import Simulation
from tests.simulation.environment import until

PARTITIONS, EVERY = 4, 0.05
LONGEST_PAUSE = 0.25
"""The longest time without a record of a partition (s), which means that at most five have come late."""

PROTOCOLS: dict[str, dict[str, Any]] = {
    "classic": {"partition_assignment_strategy": "cooperative-sticky", "heartbeat_interval_ms": 300},
    "consumer": {"group_protocol": "consumer"},
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_partitions_that_do_not_move_are_read_without_a_pause(protocol: str) -> None:
    simulation = Simulation(1)
    received: dict[int, list[float]] = defaultdict(list)

    async def write(cluster: Cluster) -> None:
        async with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
            while True:
                await asyncio.gather(*(producer.send("t", b"x", partition=each) for each in range(PARTITIONS)))
                await asyncio.sleep(EVERY)

    async def read(consumer: Consumer) -> None:
        async for record in consumer:
            received[record.partition].append(simulation.time())

    async def main() -> set[int]:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", PARTITIONS)
            options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers, "group_id": "g"}
            options |= {"auto_offset_reset": "earliest", **PROTOCOLS[protocol]}
            async with Consumer("t", **options) as first, Consumer(**options) as second:
                tasks = [asyncio.create_task(write(cluster)), asyncio.create_task(read(first))]
                await asyncio.sleep(5)
                assert len(received) == PARTITIONS
                received.clear()
                # The rebalance is slow. Eager members would not read meanwhile.
                cluster.faults.delay((JoinGroupRequest, SyncGroupRequest, ConsumerGroupHeartbeatRequest), 0.5)
                second.subscribe("t")
                tasks.append(asyncio.create_task(read(second)))
                await until(lambda: len(second.assignment()) == PARTITIONS // 2)
                await asyncio.sleep(5)
                for task in tasks:
                    task.cancel()
                await asyncio.wait(tasks)
                return {partition.partition for partition in first.assignment()}

    stayed = simulation.run(main())
    assert len(stayed) == PARTITIONS // 2
    for partition in stayed:
        assert max(after - before for before, after in pairwise(received[partition])) <= LONGEST_PAUSE
