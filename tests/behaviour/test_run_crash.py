"""A process that handles records is killed again and again: no record is lost, and few are handled twice.

``--crash-runs`` says how often, about; each run has its own seed, which a failure names.
"""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from random import Random

import pytest

from aiokproto import Consumer
from aiokproto.types import TopicPartition
from tests.behaviour.feed import fill
from tests.clusters import BehaviourCluster
from tests.timeouts import LONG_TIMEOUT

PARTITIONS, RECORDS = 3, 800
KILLS = 3
"""In a run."""
Place = tuple[int, int]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(max(int(metafunc.config.getoption("--crash-runs") or 0) // KILLS, 1)))


class Victim:
    """A process, and the records that it has handled."""

    def __init__(self, process: Process, handled: Counter[Place]) -> None:
        self._process = process
        self._handled = handled

    async def read(self, records: int) -> None:
        """Wait for some more records."""
        assert self._process.stdout is not None
        for _ in range(records):
            self._take(await asyncio.wait_for(self._process.stdout.readline(), LONG_TIMEOUT))

    async def kill(self) -> None:
        """Kill it, and read what it has written by then."""
        if self._process.returncode is None:
            self._process.kill()
        rest, _ = await self._process.communicate()
        for line in rest.splitlines():
            self._take(line)

    def _take(self, line: bytes) -> None:
        assert line, "the process has ended by itself"
        partition, offset = line.split()
        self._handled[int(partition), int(offset)] += 1


@asynccontextmanager
async def started(cluster: BehaviourCluster, topic: str, order: str, handled: Counter[Place]) -> AsyncIterator[Victim]:
    program = (sys.executable, "-m", "tests.behaviour.run_program", cluster.bootstrap_servers, topic, order)
    victim = Victim(await asyncio.create_subprocess_exec(*program, stdout=PIPE, env=dict(os.environ)), handled)
    try:
        yield victim
    finally:
        await victim.kill()


@pytest.mark.parametrize("way", ["run", "loop"])
async def test_a_killed_process_loses_no_record(cluster: BehaviourCluster, topic: str, way: str, seed: int) -> None:
    """With ``run()`` in any order, and with ``async for``; both commit by themselves."""
    random = Random(seed)
    handled: Counter[Place] = Counter()
    order = random.choice(("partition", "key", "none")) if way == "run" else way
    await cluster.create_topic(topic, partitions=PARTITIONS)
    await fill(cluster, topic, RECORDS, range(PARTITIONS))
    everything = {(partition, offset) for partition in range(PARTITIONS) for offset in range(RECORDS)}
    # How many records may be delivered again: the ones that were handled and not committed when the process was killed.
    uncommitted = 0
    for _ in range(KILLS):
        async with started(cluster, topic, order, handled) as victim:
            await victim.read(random.randrange(1, len(everything) // (KILLS + 1)))
        uncommitted += await check_commits(cluster, topic, handled)
        if handled.keys() == everything:
            break
    async with started(cluster, topic, order, handled) as victim:
        while handled.keys() != everything:
            await victim.read(1)
    await check_commits(cluster, topic, handled)
    again = handled.total() - len(everything)
    assert again <= uncommitted, f"{again} records were handled again, {uncommitted} were not committed"


async def check_commits(cluster: BehaviourCluster, topic: str, handled: Counter[Place]) -> int:
    """Assert that all committed records were handled; return how many others were."""
    partitions = [TopicPartition(topic, number) for number in range(PARTITIONS)]
    async with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=f"{topic}-group") as consumer:
        committed = await consumer.committed(*partitions)
    for partition, position in committed.items():
        end = position.offset if position else 0
        lost = [offset for offset in range(end) if (partition.partition, offset) not in handled]
        assert not lost, f"{partition}: {end} is committed, and {lost} were not handled"
    ends = {partition.partition: position.offset if position else 0 for partition, position in committed.items()}
    return sum(offset >= ends[number] for number, offset in handled)
