"""Every transient error code as the answer to each API: after two of them, everything still works."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Cluster
from aiokproto.error_codes import ErrorCode
from aiokproto.simulation import Simulation
from aiokproto.types import TopicPartition
from tests.simulation.request_faults import REFUSALS, request_class

RECORDS = 30
PARTITION = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("api", "code"),
    [
        pytest.param(api, code, id=f"{api} {code.name}", marks=pytest.mark.extended if number else ())
        for api, codes in REFUSALS.items()
        for number, code in enumerate(codes)
    ],
)
def test_a_client_gets_over_two_refusals(api: str, code: ErrorCode) -> None:
    """It gets them when it starts, and again while it works."""
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(1, config={"group.min.session.timeout.ms": 500}) as cluster:
            await cluster.create_topic("t", 1)
            refusing = asyncio.create_task(_refuse(cluster, api, code))
            writing = asyncio.create_task(_write(cluster))
            assert await _read(cluster) == set(range(RECORDS))
            await writing
            await refusing

    simulation.run(main())
    assert simulation.time() < 30


async def _refuse(cluster: Cluster, api: str, code: ErrorCode) -> None:
    for seconds in (3, 10):
        with cluster.faults.fail(request_class(api), code, times=2):
            await asyncio.sleep(seconds)


async def _write(cluster: Cluster) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(RECORDS):
            assert (await producer.send("t", b"%d" % number)).offset == number
            await asyncio.sleep(0.2)


async def _read(cluster: Cluster) -> set[int]:
    """Read each record, commit, and look up the offsets of the log."""
    options: dict[str, Any] = {
        "group_id": "g",
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 300,
        # A member that gets UNKNOWN_MEMBER_ID joins with a new id, and the group waits for the old one.
        "session_timeout_ms": 3000,
    }
    offsets: set[int] = set()
    async with Consumer("t", bootstrap_servers=cluster.bootstrap_servers, **options) as consumer:
        while len(offsets) < RECORDS:
            offset = (await asyncio.wait_for(anext(consumer), 15)).offset
            assert offset <= len(offsets), "without a gap"
            offsets.add(offset)
            if len(offsets) % 10 == 0:
                if (await consumer.commit()).lost:
                    continue
                found = await consumer.committed(PARTITION)
                assert found[PARTITION] is not None
                assert (await consumer.end_offsets(PARTITION))[PARTITION] >= len(offsets)
    return offsets


@pytest.mark.parametrize(
    ("api", "code"),
    [
        ("ConsumerGroupHeartbeat", ErrorCode.UNKNOWN_MEMBER_ID),
        ("ConsumerGroupHeartbeat", ErrorCode.FENCED_MEMBER_EPOCH),
        ("Fetch", ErrorCode.OFFSET_OUT_OF_RANGE),
    ],
)
def test_what_is_refused_for_ever_is_repeated_after_pauses(api: str, code: ErrorCode) -> None:
    """The first repetition comes at once, because it usually succeeds. If there were no pauses, there would be hundreds
    in a second."""
    counts: list[int] = []

    async def main() -> None:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", 1)
            async with (
                Producer(bootstrap_servers=cluster.bootstrap_servers) as producer,
                Consumer(
                    "t",
                    bootstrap_servers=cluster.bootstrap_servers,
                    group_id="g",
                    group_protocol="consumer",
                    auto_offset_reset="earliest",
                ) as consumer,
            ):
                await producer.send("t", b"x")
                await anext(consumer)
                topic: dict[str, Any] = {"topic": "t"} if api == "Fetch" else {}
                with cluster.faults.fail(request_class(api), code, **topic) as rule:
                    reading = asyncio.create_task(_read_on(consumer))
                    await asyncio.sleep(30)
                    counts.append(rule.count)
                    reading.cancel()
                    await asyncio.wait([reading])

    Simulation(1).run(main())
    assert 5 <= counts[0] <= 100


async def _read_on(consumer: Consumer) -> None:
    while True:
        await consumer.poll(1000)
