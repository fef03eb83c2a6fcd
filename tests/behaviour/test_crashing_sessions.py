"""Processes that copy a topic exactly once are killed (``kill -9``) at every step; a successor finishes the copy.

``--crash-runs`` says how often, about; each run has its own seed, which a failure names.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from random import Random

import pytest

from aiokproto import Consumer, Producer
from tests.behaviour.copying_process import Plan, copy, session
from tests.behaviour.waiting import written
from tests.clusters import BehaviourCluster
from tools.setup.project import ROOT

KILLS = 5
"""In a run."""
PARTITIONS, PORTION = 2, 8
"""Records that are written before each kill, to be copied."""
LONGEST = 40.0
"""Seconds after which a process that hasn't reached its step is killed."""

APIS = (
    "FindCoordinator",
    "JoinGroup",
    "SyncGroup",
    "OffsetFetch",
    "Fetch",
    "InitProducerId",
    "Produce",
    "TxnOffsetCommit",
    "EndTxn",
)
OF_VERSION_1 = ("AddPartitionsToTxn", "AddOffsetsToTxn")
OFTEN = ("Fetch", "Produce", "TxnOffsetCommit", "EndTxn", *OF_VERSION_1)
"""The requests that a process makes more than once."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        runs = int(metafunc.config.getoption("--crash-runs", 5) or 0)
        metafunc.parametrize("seed", range(-(-runs // KILLS)))


def plan(random: Random, cluster: BehaviourCluster, topic: str, number: int) -> Plan:
    first_version = random.random() < 0.4
    api = random.choice((*APIS, *OF_VERSION_1) if first_version else APIS)
    # Most processes have a successor at once, like a pod that restarts. Others are replaced only after timeouts.
    same = random.random() < 0.8
    return Plan(
        cluster.bootstrap_servers,
        topic,
        topic,
        f"{topic}-{0 if same else number}",
        f"{topic}-{0 if same else number}",
        first_version,
        api,
        random.choice(("before", "sent", "answered")),
        random.randint(1, 3) if api in OFTEN else 1,
    )


async def kill_at(plan: Plan) -> bool:
    """Run a process until it dies; return whether it died at its step."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.behaviour.copying_process", json.dumps(plan), cwd=ROOT
    )
    try:
        await asyncio.wait_for(process.wait(), LONGEST)
    except asyncio.TimeoutError:
        process.kill()
        await process.wait()
        return False
    assert process.returncode == -9, f"{plan}: the process ended by itself, with {process.returncode}"
    return True


async def _check(cluster: BehaviourCluster, topic: str, seed: int) -> None:
    random = Random(seed)
    await cluster.create_topic(topic, partitions=PARTITIONS)
    await cluster.create_topic(f"{topic}-out", partitions=PARTITIONS)
    expected: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for number in range(KILLS):
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            for each in range(PORTION):
                partition = random.randrange(PARTITIONS)
                expected[partition].append(b"%d.%d" % (number, each))
                await producer.send(topic, expected[partition][-1], partition=partition)
        await kill_at(plan(random, cluster, topic, number))
    await _finish(cluster, topic, Counter(value for values in expected for value in values))
    found = await _committed(cluster, f"{topic}-out")
    assert found == expected


async def _finish(cluster: BehaviourCluster, topic: str, expected: Counter[bytes]) -> None:
    """Copy the rest, until all input is committed as processed."""
    last = session(Plan(cluster.bootstrap_servers, topic, topic, f"{topic}-0", f"{topic}-0", False, "", "", 0))
    async with last:
        running = asyncio.create_task(last.run(copy))
        async with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=topic) as reader:
            places = [(topic, number) for number in range(PARTITIONS)]
            ends = await reader.end_offsets(*places)
            while not running.done():
                committed = await reader.committed(*places)
                if all((at.offset if (at := committed[place]) else 0) == end for place, end in ends.items()):
                    break
                await asyncio.wait([running], timeout=0.1)
        last.stop()
        await running


async def _committed(cluster: BehaviourCluster, topic: str) -> list[list[bytes]]:
    """The committed records of each partition."""
    found: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    reader = Consumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    ends = await written(cluster, *[(topic, number) for number in range(PARTITIONS)])
    async with reader:
        while any([await reader.position(place) < end for place, end in ends.items()]):
            for record in await reader.poll(100):
                found[record.partition].append(record.value or b"")
    return found


async def test_a_session_is_killed_at_any_step(cluster: BehaviourCluster, topic: str, seed: int) -> None:
    await _check(cluster, topic, seed)


async def test_a_session_is_killed_at_any_step_with_three_brokers(
    cluster3: BehaviourCluster, topic: str, seed: int
) -> None:
    await _check(cluster3, topic, 1000 + seed)
