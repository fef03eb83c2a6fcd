"""The memory of a consumer in a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE

from aiokproto import Producer
from tests.clusters import BehaviourCluster
from tests.timeouts import LONG_TIMEOUT

PARTITIONS, SIZE = 100, 900_000
BUDGET = 32 * 1024 * 1024


async def growth(cluster: BehaviourCluster, topic: str, budget: int) -> int:
    """Return by how many bytes a process grows that reads one record of each partition."""
    arguments = (cluster.bootstrap_servers, topic, str(PARTITIONS), str(budget))
    program = (sys.executable, "-m", "tests.behaviour.memory_program", *arguments)
    process = await asyncio.create_subprocess_exec(*program, stdout=PIPE, env=dict(os.environ))
    try:
        printed, _ = await asyncio.wait_for(process.communicate(), LONG_TIMEOUT)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return int(printed)


async def test_what_is_fetched_ahead_is_limited_in_bytes(cluster: BehaviourCluster, topic: str) -> None:
    """The limit holds for any number of partitions and for a slow reader. The topic has 86 MiB of records."""
    await cluster.create_topic(topic, PARTITIONS)
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for partition in range(PARTITIONS):
            await producer.send(topic, bytes(SIZE), partition=partition)
    assert await growth(cluster, topic, BUDGET) <= 1.5 * BUDGET
