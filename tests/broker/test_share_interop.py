"""Java's share consumer and this library's in one group, and a member whose process is killed."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from aiokproto import ShareConsumer
from aiokproto.broker import Cluster
from aiokproto.cluster.telemetry import TelemetryReporter
from aiokproto.records import BatchRecord, encode
from tests.broker.test_third_party_clients import SECONDS
from tests.java.compiler import PROGRAMS, command
from tests.observe.test_telemetry import names, subscribe
from tests.simulation.sharing import OPTIONS, configure
from tests.timeouts import LONG_TIMEOUT
from tools.setup.project import ROOT

WORKER = PROGRAMS / "sharing" / "Worker.java"
PARTITIONS, BATCH, LEAST = 2, 20, 100

KILLED = """
import asyncio
import sys

from aiokproto import ShareConsumer


async def main():
    async with ShareConsumer("t", bootstrap_servers=sys.argv[1], group_id="g") as consumer:
        async for record in consumer:
            print(record.offset, flush=True)
            if record.offset == 2:
                await consumer.commit()
            if record.offset == 4:
                await asyncio.Event().wait()


asyncio.run(main())
"""


@asynccontextmanager
async def process(*command: str | Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a program with its standard streams. It is killed at the end, unless it has ended."""
    running = await asyncio.create_subprocess_exec(
        *map(str, command), stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    try:
        yield running
    finally:
        if running.returncode is None:
            running.kill()
        await running.wait()


def fill(cluster: Cluster, partition: int, count: int) -> int:
    """Write records, and return how many the partition then has."""
    log = cluster._running.state.partition("t", partition)
    log.append(encode([BatchRecord(0, 0, None, b"%d" % number) for number in range(count)]), 0)
    return cluster.partition("t", partition).end_offset


@pytest.mark.java
@pytest.mark.kafka
async def test_java_and_python_members_share_the_records_of_a_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They also push metrics with the same names."""
    monkeypatch.setattr(TelemetryReporter.__init__, "__kwdefaults__", {"first_after": 0.0})
    in_java: list[tuple[int, int]] = []
    in_python: list[tuple[int, int]] = []
    async with Cluster(2, config=OPTIONS) as cluster:
        await cluster.create_topic("t", PARTITIONS)
        await configure(cluster)
        servers = cluster.bootstrap_servers
        assert await subscribe(cluster, metrics="*", interval_ms="500") == 0

        async def listen(stdout: asyncio.StreamReader) -> None:
            async for line in stdout:
                partition, offset = map(int, line.split())
                in_java.append((partition, offset))

        async with (
            process(*command(WORKER, "Worker"), servers, "g", "t") as worker,
            ShareConsumer("t", bootstrap_servers=servers, group_id="g", max_poll_records=5) as consumer,
        ):
            assert worker.stdout is not None
            assert worker.stdin is not None
            listening = asyncio.create_task(listen(worker.stdout))
            written = 0
            deadline = asyncio.get_running_loop().time() + SECONDS
            while min(len(in_java), len(in_python)) < LEAST or len(in_java) + len(in_python) < written:
                assert asyncio.get_running_loop().time() < deadline, (len(in_java), len(in_python), written)
                if written - len(in_java) - len(in_python) < BATCH and min(len(in_java), len(in_python)) < LEAST:
                    written = sum(fill(cluster, partition, BATCH) for partition in range(PARTITIONS))
                for record in await consumer.poll(100):
                    if record.offset % 5 == 0 and record.delivery_count == 1:
                        consumer.release(record)
                    else:
                        in_python.append((record.partition, record.offset))
            assert all(each.ok for each in await consumer.commit())
            worker.stdin.write(b"\n")
            await asyncio.wait_for(worker.wait(), LONG_TIMEOUT)
            await listening
        pushed = [push for push in cluster.pushed_metrics() if push.terminating]
    ours, of_java = (
        {name for push in pushed if push.client_id.startswith("aiokproto") is mine for name in names(push.metrics)}
        for mine in (True, False)
    )
    assert {name for name in ours if ".share." in name}
    assert ours <= of_java, ours - of_java
    assert worker.returncode == 0
    assert len({*in_java, *in_python}) == len(in_java) + len(in_python) == written, "each record once"


async def test_the_records_of_a_killed_process_are_delivered_again() -> None:
    async with Cluster(1, config=OPTIONS) as cluster:
        await cluster.create_topic("t")
        await configure(cluster)
        fill(cluster, 0, 6)
        async with process(sys.executable, "-c", KILLED, cluster.bootstrap_servers) as worker:
            assert worker.stdout is not None
            for offset in range(5):
                line = await asyncio.wait_for(worker.stdout.readline(), LONG_TIMEOUT)
                assert int(line) == offset
            worker.kill()
            await worker.wait()
        async with ShareConsumer("t", bootstrap_servers=cluster.bootstrap_servers, group_id="g") as consumer:
            # Records 0 to 2 were committed. 3 was accepted when 4 was requested, and that may have been sent.
            counts: dict[int, int] = {}
            while not {4, 5} <= counts.keys():
                record = await asyncio.wait_for(anext(consumer), LONG_TIMEOUT)
                counts[record.offset] = record.delivery_count
            counts.pop(3, None)
            assert counts == {4: 2, 5: 2}
