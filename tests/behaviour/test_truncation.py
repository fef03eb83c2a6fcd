"""Logs that lose records which were read (KIP-320), on the embedded broker and on real Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aiokproto import Consumer
from aiokproto.consumer import OffsetReset, ResetReason
from aiokproto.errors import LogTruncationError, OffsetOutOfRangeError
from aiokproto.types import OffsetAndMetadata, Record, TopicPartition
from tests.behaviour.feed import fill
from tests.behaviour.unclean import UncleanElection
from tests.clusters import BehaviourCluster
from tests.timeouts import LONG_TIMEOUT


async def take(consumer: Consumer, count: int) -> list[Record]:
    return [await anext(consumer) for _ in range(count)]


@asynccontextmanager
async def positioned(cluster: BehaviourCluster, at: TopicPartition, **options: Any) -> AsyncIterator[Consumer]:
    """A consumer that reads the partition from its start."""
    consumer = Consumer(
        bootstrap_servers=cluster.bootstrap_servers, default_api_timeout_ms=LONG_TIMEOUT * 1000, **options
    )
    async with consumer:
        consumer.assign(at)
        consumer.seek(at, 0)
        yield consumer


async def is_an_event(
    consumer: Consumer, last: Record, resets: list[OffsetReset], caplog: pytest.LogCaptureFixture
) -> None:
    """With a reset policy, reading continues where the logs diverge."""
    after, at = await take(consumer, 8), TopicPartition(last.topic, last.partition)
    assert [(record.offset, record.value) for record in after] == [
        (10 + number, b"value-%d" % (100 + number)) for number in range(8)
    ]
    assert after[0].leader_epoch > last.leader_epoch
    assert resets == [OffsetReset(at, ResetReason.TRUNCATED, 15, 10, last.leader_epoch)]
    assert f"{at} at offset 15: the log was truncated; continuing at offset 10" in caplog.text


async def is_an_error(consumer: Consumer, before: list[Record]) -> None:
    """Without a reset policy, the error has the offset at which reading can continue."""
    with pytest.raises(LogTruncationError, match="up to offset 10 of leader epoch") as caught:
        await anext(consumer)
    error = caught.value
    assert isinstance(error, OffsetOutOfRangeError)
    assert error.partition == TopicPartition(before[-1].topic, before[-1].partition)
    assert error.position == OffsetAndMetadata(15, "", before[-1].leader_epoch)
    assert error.diverged == OffsetAndMetadata(10, "", before[9].leader_epoch)
    assert error.diverged is not None
    consumer.seek(error.partition, error.diverged)
    assert [record.offset for record in await take(consumer, 8)] == list(range(10, 18))


@pytest.mark.exclusive
async def test_a_truncation_is_detected(
    cluster3: BehaviourCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Consumers notice it while they read, and so does a group that was away, by the committed epoch.

    One election serves all three, because on real Kafka it takes a stop of two brokers.
    """
    await cluster3.create_topic(topic, replication=2)
    election, at = UncleanElection(cluster3, topic), TopicPartition(topic, 0)
    await fill(cluster3, topic, 10)
    await election.isolate()
    await fill(cluster3, topic, 5, start=10)
    options: dict[str, Any] = {"bootstrap_servers": cluster3.bootstrap_servers, "group_id": topic}
    async with Consumer(topic, auto_offset_reset="earliest", **options) as member:
        last = (await take(member, 15))[-1]
        await member.commit()
        assert await member.committed(at) == {at: OffsetAndMetadata(15, "", last.leader_epoch)}
    seen, found = list[OffsetReset](), list[OffsetReset]()
    async with (
        positioned(cluster3, at, auto_offset_reset="latest", on_offset_reset=seen.append) as resetting,
        positioned(cluster3, at, auto_offset_reset="none") as failing,
    ):
        read, before = await take(resetting, 15), await take(failing, 15)
        assert [record.offset for record in read] == [record.offset for record in before] == list(range(15))
        await election.elect()
        # The log grows beyond the position, so the offset alone doesn't show the truncation.
        await fill(cluster3, topic, 8, start=100)
        await is_an_event(resetting, read[-1], seen, caplog)
        await is_an_error(failing, before)
    async with Consumer(topic, auto_offset_reset="earliest", on_offset_reset=found.append, **options) as member:
        assert [record.offset for record in await take(member, 8)] == list(range(10, 18))
    assert found == [OffsetReset(at, ResetReason.TRUNCATED, 15, 10, last.leader_epoch)]


async def test_an_election_without_loss_is_no_event(cluster3: BehaviourCluster, topic: str) -> None:
    await cluster3.create_topic(topic, replication=3)
    resets = list[OffsetReset]()
    async with Consumer(
        topic,
        bootstrap_servers=cluster3.bootstrap_servers,
        group_id=topic,
        auto_offset_reset="earliest",
        on_offset_reset=resets.append,
    ) as consumer:
        for turn in range(3):
            await fill(cluster3, topic, 5, start=5 * turn)
            records = await take(consumer, 5)
            assert [record.offset for record in records] == list(range(5 * turn, 5 * turn + 5))
            await consumer.commit()
            # There are two elections, and no record is written in the second epoch.
            await cluster3.move_leader(topic, 0)
            await cluster3.move_leader(topic, 0)
    assert resets == []
