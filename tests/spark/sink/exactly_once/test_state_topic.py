"""What a batch reads from the state topic, and where it starts."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokproto.cluster import ClusterClient
from aiokproto.config import ClusterConfig
from aiokproto.group.offsets import GroupOffsets
from aiokproto.producer import Producer, ProducerRecord
from aiokproto.spark.sink.exactly_once import state_topic
from aiokproto.spark.sink.exactly_once.protocol import Batch, FreeId, StateReader, batch_record, driver_id, free_record
from aiokproto.spark.worker import Worker
from aiokproto.types import OffsetAndMetadata, TopicPartition
from tests.clusters import BehaviourCluster
from tests.spark.sink.exactly_once.harness import RUN, Job, batches

OF_A_BATCH = 5
"""The records of a batch: free ids that are taken, an intent, that it is done, and the free ids; and a snapshot."""


@pytest.fixture
async def job(cluster: BehaviourCluster, worker: Worker, topic: str) -> Job:
    await cluster.create_topic(topic)
    return Job(cluster, worker, topic)


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many records each look at the state topic has read."""
    counts: list[int] = []
    init, add = StateReader.__init__, StateReader.add

    def new(self: StateReader, prefix: str) -> None:
        counts.append(0)
        init(self, prefix)

    def counted(self: StateReader, *record: Any) -> None:
        counts[-1] += 1
        add(self, *record)

    monkeypatch.setattr(StateReader, "__init__", new)
    monkeypatch.setattr(StateReader, "add", counted)
    return counts


async def write_history(job: Job, count: int) -> None:
    """Write what so many batches leave, half of them of another query."""
    records = []
    for number in range(count):
        prefix = (job.prefix, "another")[number % 2]
        records += [
            free_record(prefix, ()),
            batch_record(prefix, Batch("before", number)),
            batch_record(prefix, Batch("before", number, done=True)),
            free_record(prefix, [FreeId("a", 1, 2)]),
        ]
    async with Producer(bootstrap_servers=job.cluster.bootstrap_servers, compression_type="gzip") as producer:
        await producer.send_many(
            f"{job.prefix}-state", [ProducerRecord(key=key, value=value) for key, value in records]
        )


@pytest.mark.parametrize("history", [10, 1000, pytest.param(100_000, marks=pytest.mark.thorough)])
async def test_what_a_batch_reads_does_not_grow_with_the_batches_before(
    job: Job, reads: list[int], history: int
) -> None:
    await job.plan()
    await write_history(job, history)
    await job.plan()
    assert reads[-1] >= 4 * history
    reads.clear()
    await job.run(batches(3))
    assert len(reads) == 3
    assert max(reads) <= state_topic.SNAPSHOT_AFTER + OF_A_BATCH
    assert (await job.plan()).done == {"before": history - 2, RUN: 2}


async def test_snapshots_are_written_from_time_to_time(
    job: Job, reads: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_topic, "SNAPSHOT_AFTER", 12)
    await job.run(batches(12, 1))
    assert len(reads) == 12
    assert 12 <= max(reads) <= 12 + OF_A_BATCH
    assert (await job.plan()).done == {RUN: 11}


@pytest.mark.parametrize("shift", [-1_000_000, 3, 1_000_000])
async def test_without_a_snapshot_at_the_known_offset_all_is_read(
    job: Job, reads: list[int], monkeypatch: pytest.MonkeyPatch, shift: int
) -> None:
    """As with a topic that was created again."""
    monkeypatch.setattr(state_topic, "SNAPSHOT_AFTER", 12)
    await job.run(batches(7, 1))
    reads.clear()
    partition = TopicPartition(f"{job.prefix}-state", 0)
    async with ClusterClient(ClusterConfig.parse(job.parsed[1].connection)) as cluster:
        await cluster.topic(partition.topic)
        group = GroupOffsets(cluster, driver_id(job.prefix))
        at = asyncio.get_running_loop().time() + 60
        known = (await group.lookup([partition], None, at)).found[partition]
        assert known is not None
        await group.commit({partition: OffsetAndMetadata(max(known.offset + shift, 0))}, None, at)
    assert (await job.plan()).done == {RUN: 6}
    assert reads[-1] > 12
