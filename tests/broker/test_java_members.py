"""Java consumers and ours as members of one group, with the same and with different protocols."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from aiokproto.consumer import Consumer
from aiokproto.group.config import GroupProtocol
from tests.behaviour.feed import fill
from tests.broker.conftest import THIRD_PARTY
from tests.clusters import BehaviourCluster
from tests.java.compiler import command
from tests.timeouts import LONG_TIMEOUT

PARTITIONS, SECONDS = 4, 2 * LONG_TIMEOUT

Place = tuple[int, int]


class JavaMember:
    """A Java consumer in its own process.

    Attributes:
        seen: The records that it has read.
        owned: How many partitions it has.
        lost: How many it has lost without having revoked them.
    """

    def __init__(self) -> None:
        self.seen: Counter[Place] = Counter()
        self.owned = 0
        self.lost = 0
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self._log = Path(os.devnull)

    async def start(self, command: list[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as errors:
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors
            )
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        async for line in self._process.stdout:
            what, *numbers = line.decode().split()
            if what == "record":
                self.seen[int(numbers[0]), int(numbers[1])] += 1
            elif what in ("assigned", "revoked", "lost"):
                count = int(numbers[0])
                self.owned += count if what == "assigned" else -count
                self.lost += count if what == "lost" else 0

    async def stop(self) -> None:
        """Let it leave the group."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._reading is not None
        try:
            self._process.stdin.close()
            await asyncio.wait_for(self._process.wait(), SECONDS)
            assert self._process.returncode == 0, self._log.read_text()[-2000:]
        finally:
            if self._process.returncode is None:
                self._process.kill()
                await self._process.wait()
            await self._reading


@pytest.mark.kafka
@pytest.mark.java
@pytest.mark.parametrize(
    ("ours", "theirs"), [("consumer", "consumer"), ("classic", "consumer"), ("consumer", "classic")]
)
async def test_a_java_consumer_shares_a_group_with_ours(
    cluster: BehaviourCluster,
    topic: str,
    tmp_path: Path,
    ours: GroupProtocol,
    theirs: GroupProtocol,
) -> None:
    """Java joins and leaves. Each record is read once, by one of the two."""
    await cluster.create_topic(topic, partitions=PARTITIONS)
    seen: Counter[Place] = Counter()
    fed = 0
    java, reader = JavaMember(), command(THIRD_PARTY / "members", "GroupReader")
    async with Consumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=topic,
        group_protocol=ours,
        auto_offset_reset="earliest",
        heartbeat_interval_ms=100,
        auto_commit_interval_ms=50,
    ) as consumer:

        async def read(members: int) -> None:
            """Feed the topic, and read until everything is read and the partitions are shared."""
            nonlocal fed
            await fill(cluster, topic, 10, range(PARTITIONS), start=fed)
            fed += 10

            def done() -> bool:
                shares = [len(consumer.assignment()), java.owned][:members]
                return len(seen | java.seen) == PARTITIONS * fed and sum(shares) == PARTITIONS and min(shares) > 0

            while not done():
                seen.update((record.partition, record.offset) for record in await consumer.poll(50))

        await asyncio.wait_for(read(1), SECONDS)
        await java.start([*reader, cluster.bootstrap_servers, topic, topic, theirs], tmp_path / "java.log")
        try:
            await asyncio.wait_for(read(2), SECONDS)
            await asyncio.wait_for(read(2), SECONDS)
            assert java.seen
        finally:
            await java.stop()
        await asyncio.wait_for(read(1), SECONDS)
    assert seen + java.seen == Counter(
        {(partition, offset): 1 for partition in range(PARTITIONS) for offset in range(fed)}
    )
    assert java.lost == 0
