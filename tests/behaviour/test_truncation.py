"""Logs that lose records which were read (KIP-320), on the embedded broker and on real Kafka."""

from __future__ import annotations

import pytest

from aiokproto import Consumer
from aiokproto.consumer import OffsetReset, ResetReason
from aiokproto.errors import LogTruncationError, OffsetOutOfRangeError
from aiokproto.types import OffsetAndMetadata, Record, TopicPartition
from tests.behaviour.feed import fill
from tests.behaviour.unclean import UncleanElection
from tests.clusters import BehaviourCluster
from tests.patience import PATIENCE


async def take(consumer: Consumer, count: int) -> list[Record]:
    return [await anext(consumer) for _ in range(count)]


@pytest.mark.exclusive
async def test_a_truncation_is_an_event_and_reading_continues_where_the_logs_diverge(
    cluster3: BehaviourCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster3.create_topic(topic, replication=2)
    election, at, resets = UncleanElection(cluster3, topic), TopicPartition(topic, 0), list[OffsetReset]()
    await fill(cluster3, topic, 10)
    await election.isolate()
    await fill(cluster3, topic, 5, start=10)
    async with Consumer(
        bootstrap_servers=cluster3.bootstrap_servers,
        auto_offset_reset="latest",
        on_offset_reset=resets.append,
        default_api_timeout_ms=PATIENCE * 1000,
    ) as consumer:
        consumer.assign(at)
        consumer.seek(at, 0)
        before = await take(consumer, 15)
        await election.elect()
        # The log grows beyond the position: its offset alone shows nothing.
        await fill(cluster3, topic, 8, start=100)
        after = await take(consumer, 8)
    assert [record.offset for record in before] == list(range(15))
    assert [(record.offset, record.value) for record in after] == [
        (10 + number, b"value-%d" % (100 + number)) for number in range(8)
    ]
    assert after[0].leader_epoch > before[-1].leader_epoch
    assert resets == [OffsetReset(at, ResetReason.TRUNCATED, 15, 10, before[-1].leader_epoch)]
    assert f"{at} at offset 15: the log was truncated; continuing at offset 10" in caplog.text


@pytest.mark.exclusive
async def test_a_truncation_raises_without_a_reset_policy(cluster3: BehaviourCluster, topic: str) -> None:
    await cluster3.create_topic(topic, replication=2)
    election, at = UncleanElection(cluster3, topic), TopicPartition(topic, 0)
    await fill(cluster3, topic, 10)
    await election.isolate()
    await fill(cluster3, topic, 5, start=10)
    async with Consumer(bootstrap_servers=cluster3.bootstrap_servers, auto_offset_reset="none") as consumer:
        consumer.assign(at)
        consumer.seek(at, 0)
        before = await take(consumer, 15)
        await election.elect()
        await fill(cluster3, topic, 8, start=100)
        with pytest.raises(LogTruncationError, match="up to offset 10 of leader epoch") as caught:
            await anext(consumer)
        error = caught.value
        assert isinstance(error, OffsetOutOfRangeError)
        assert error.partition == at
        assert error.position == OffsetAndMetadata(15, "", before[-1].leader_epoch)
        assert error.diverged == OffsetAndMetadata(10, "", before[9].leader_epoch)
        assert error.diverged is not None
        consumer.seek(at, error.diverged)
        assert [record.offset for record in await take(consumer, 8)] == list(range(10, 18))


@pytest.mark.exclusive
async def test_a_truncation_while_a_group_was_away_is_detected_by_the_committed_epoch(
    cluster3: BehaviourCluster, topic: str
) -> None:
    await cluster3.create_topic(topic, replication=2)
    election, at, resets = UncleanElection(cluster3, topic), TopicPartition(topic, 0), list[OffsetReset]()
    await fill(cluster3, topic, 10)
    await election.isolate()
    await fill(cluster3, topic, 5, start=10)
    options = {"bootstrap_servers": cluster3.bootstrap_servers, "group_id": topic, "auto_offset_reset": "earliest"}

    async with Consumer(topic, **options) as consumer:  # type: ignore[arg-type]
        last = (await take(consumer, 15))[-1]
        await consumer.commit()
        assert await consumer.committed(at) == {at: OffsetAndMetadata(15, "", last.leader_epoch)}
    await election.elect()
    await fill(cluster3, topic, 8, start=100)
    async with Consumer(topic, **options, on_offset_reset=resets.append) as consumer:  # type: ignore[arg-type]
        assert [record.offset for record in await take(consumer, 8)] == list(range(10, 18))
    assert resets == [OffsetReset(at, ResetReason.TRUNCATED, 15, 10, last.leader_epoch)]


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
            # Twice: in the second epoch no record is written.
            await cluster3.move_leader(topic, 0)
            await cluster3.move_leader(topic, 0)
    assert resets == []
