"""A process that handles records is killed again and again: no record is lost, and few are handled twice.

``--crash-runs`` says how often; each run has its own seed, which a failure names.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from aiokproto import Consumer
from aiokproto.types import TopicPartition
from tests.behaviour.feed import fill
from tests.behaviour.run_program import PENDING
from tests.clusters import BehaviourCluster
from tests.patience import PATIENCE

PARTITIONS, RECORDS, KILLS = 3, 400, 3
SINCE_COMMIT = 150
"""Records handled since the last commit, at most about 30 in 20 ms, and more on a slow machine: they come again."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        runs = int(metafunc.config.getoption("--crash-runs", 5) or 0)
        metafunc.parametrize("seed", range(max(runs // 2, 1)))


async def start(cluster: BehaviourCluster, topic: str, file: Path, order: str) -> Process:
    program = (sys.executable, "-m", "tests.behaviour.run_program", cluster.bootstrap_servers, topic, str(file), order)
    process = await asyncio.create_subprocess_exec(*program, stdout=PIPE, env=dict(os.environ))
    assert process.stdout is not None
    assert await asyncio.wait_for(process.stdout.readline(), PATIENCE) == b"started\n"
    return process


def handled(file: Path) -> Counter[tuple[int, int]]:
    lines = file.read_text().splitlines() if file.exists() else []
    return Counter((int(partition), int(offset)) for partition, offset in map(str.split, lines))


async def kill(process: Process) -> None:
    process.kill()
    await process.communicate()


async def test_a_killed_process_loses_no_record(
    cluster: BehaviourCluster, topic: str, tmp_path: Path, seed: int
) -> None:
    random, file = Random(seed), tmp_path / "handled"
    order: Any = random.choice(("partition", "key", "none"))
    await cluster.create_topic(topic, partitions=PARTITIONS)
    await fill(cluster, topic, RECORDS, range(PARTITIONS))
    everything = {(partition, offset) for partition in range(PARTITIONS) for offset in range(RECORDS)}
    for _ in range(KILLS):
        process = await start(cluster, topic, file, order)
        try:
            enough = len(handled(file)) + random.randrange(1, len(everything) // (KILLS + 1))
            while len(handled(file)) < enough:
                await asyncio.sleep(0.005)
        finally:
            await kill(process)
        await check_commits(cluster, topic, file)
    process = await start(cluster, topic, file, order)
    try:

        async def all_handled() -> None:
            while handled(file).keys() != everything:
                await asyncio.sleep(0.02)

        await asyncio.wait_for(all_handled(), PATIENCE)
    finally:
        await kill(process)
    await check_commits(cluster, topic, file)
    again = sum(count - 1 for count in handled(file).values())
    assert again <= KILLS * (PENDING + SINCE_COMMIT), f"{again} records were handled again"


async def check_commits(cluster: BehaviourCluster, topic: str, file: Path) -> None:
    """Assert that all committed records were handled."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    async with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=f"{topic}-group") as consumer:
        committed = await consumer.committed(*partitions)
    done = handled(file)
    for partition, position in committed.items():
        lost = [at for at in range(position.offset if position else 0) if (partition.partition, at) not in done]
        assert not lost, f"{partition}: {position} is committed, and {lost} were not handled"
