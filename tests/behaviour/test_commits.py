"""What commit() takes and returns, on the embedded broker and on real Kafka."""

from __future__ import annotations

import pytest

from aiokproto.errors import CommitError
from aiokproto.types import OffsetAndMetadata, TopicPartition
from tests.behaviour.feed import fill
from tests.behaviour.test_groups import member, take
from tests.clusters import BehaviourCluster
from tests.timeouts import LONG_TIMEOUT

pytestmark = pytest.mark.parametrize("protocol", ["classic", "consumer"])


async def test_manual_commits(cluster: BehaviourCluster, topic: str, protocol: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 20)
    at = TopicPartition(topic, 0)
    async with member(cluster, topic, group_protocol=protocol, enable_auto_commit=False) as consumer:
        assert await consumer.committed(at) == {at: None}
        await take(consumer, 5)
        await consumer.commit()
        assert (await consumer.committed())[at] == OffsetAndMetadata(5, "", 0)
        await consumer.commit({at: OffsetAndMetadata(3, "a note")})
        known = (await consumer.committed())[at]
        assert known is not None
        assert (known.offset, known.metadata) == (3, "a note")
        await take(consumer, 5)
        other = TopicPartition(topic, 99)
        result = await consumer.commit({at: 3, other: 1})
        assert (result.committed, result.lost, result.refused) == ({at: OffsetAndMetadata(3)}, [other], [])
        with pytest.raises(CommitError, match=f"{other} not committed"):
            result.check()
    async with member(cluster, topic, group_protocol=protocol, enable_auto_commit=False) as consumer:
        assert await take(consumer, 1) == [(0, 3)]


async def test_records_batches_and_lists_are_committed(cluster: BehaviourCluster, topic: str, protocol: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 30)
    at = TopicPartition(topic, 0)
    async with member(cluster, topic, group_protocol=protocol, enable_auto_commit=False) as consumer:

        async def committed() -> OffsetAndMetadata | None:
            return (await consumer.committed(at))[at]

        record = await anext(consumer)
        await anext(consumer)
        result = await consumer.commit(record)
        assert result.committed == {at: OffsetAndMetadata(1, "", record.leader_epoch)}
        assert await committed() == result.committed[at]
        records = await consumer.poll(LONG_TIMEOUT * 1000, max_records=3)
        await consumer.commit(records)
        assert await committed() == OffsetAndMetadata(records[-1].offset + 1, "", records[-1].leader_epoch)
        batch = await anext(consumer.batches())
        await consumer.commit(batch)
        assert await committed() == OffsetAndMetadata(batch.next_offset, "", record.leader_epoch)
        assert (await consumer.commit([])).outcomes == {}
