"""The first record arrives without a backoff, and a consumer at the end of the log keeps no response in memory."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest

from aiokproto.cluster import ClusterClient
from aiokproto.config import ClusterConfig
from aiokproto.consumer import Consumer, PartitionStatus
from aiokproto.records import BatchRecord, encode
from aiokproto.types import Record
from tests.behaviour.feed import EPOCH, append, fill
from tests.clusters import BehaviourCluster, embedded_cluster
from tests.net.waiting import until
from tests.timeouts import LONG_TIMEOUT

MINUTES = 300_000


# The backoff is longer than any test, because nothing fails here, so none must happen.
def patient(broker: BehaviourCluster, *topics: str) -> Consumer:
    return Consumer(
        *topics,
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        retry_backoff_ms=MINUTES,
        retry_backoff_max_ms=MINUTES,
    )


@pytest.fixture
async def one() -> AsyncIterator[BehaviourCluster]:
    async with embedded_cluster(1) as broker:
        await broker.create_topic("t")
        await fill(broker, "t", 1)
        yield broker


async def first(consumer: Consumer) -> Record:
    return await asyncio.wait_for(anext(consumer), LONG_TIMEOUT)


@pytest.mark.parametrize("start", ["earliest", "offset"])
async def test_the_first_record_of_an_assigned_topic_that_is_not_in_the_metadata(
    one: BehaviourCluster, start: str
) -> None:
    async with patient(one) as consumer:
        consumer.assign(("t", 0))
        if start == "offset":
            consumer.seek(("t", 0), 0)
        assert (await first(consumer)).offset == 0


async def test_the_first_record_of_a_subscribed_topic(one: BehaviourCluster) -> None:
    async with patient(one, "t") as consumer:
        assert (await first(consumer)).offset == 0


def frames_above(size: int) -> list[bytearray]:
    """Large responses that some memoryview still refers to."""
    gc.collect()
    frames = [found.obj for found in gc.get_objects() if isinstance(found, memoryview)]
    return [frame for frame in frames if isinstance(frame, bytearray) and len(frame) > size]


async def test_a_consumer_at_the_end_keeps_no_fetch_response_in_memory(one: BehaviourCluster) -> None:
    """Otherwise the last response would stay in memory until the next records arrive."""
    large = bytes(500_000)
    async with ClusterClient(ClusterConfig.parse({"bootstrap_servers": one.bootstrap_servers})) as cluster:
        await append(cluster, "t", 0, encode([BatchRecord(0, EPOCH, None, large)]))
    async with patient(one) as consumer:
        consumer.assign(("t", 0))
        while (await first(consumer)).value != large:
            pass
        assert await consumer.poll() == []
        await until(lambda: consumer.partition_state(("t", 0)).status is PartitionStatus.FETCHING)
        # A thread that has just computed its checksum may still refer to it for a moment.
        await until(lambda: not frames_above(len(large)))
