"""What happens to old records: compaction keeps the newest of each key, and deletion moves the log's start."""

from __future__ import annotations

import time

import pytest

from aiokproto import Client, Consumer, Producer
from aiokproto.codec.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from aiokproto.errors import InvalidRecordError
from aiokproto.types import Record, TopicPartition
from tests.behaviour.waiting import until
from tests.clusters import BehaviourCluster

COMPACT = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01", "segment.ms": "1000"}


async def read(cluster: BehaviourCluster, topic: str) -> list[Record]:
    """Return all records of the topic's only partition."""
    found: list[Record] = []
    async with Consumer(bootstrap_servers=cluster.bootstrap_servers) as consumer:
        consumer.assign(TopicPartition(topic, 0))
        consumer.seek_to_beginning((topic, 0))
        (end,) = (await consumer.end_offsets((topic, 0))).values()
        while await consumer.position((topic, 0)) < end:
            found += await consumer.poll(500)
    return found


async def test_compaction(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, config=COMPACT)
    now = time.time_ns() // 1_000_000
    async with Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0) as producer:
        for number in range(40):
            value = None if number == 37 else b"v%d" % number
            await producer.send(topic, value, key=b"k%d" % (number % 4), timestamp=now - 10_000)
        # Compaction leaves the newest segment alone. This record opens it.
        await producer.send(topic, b"newest", key=b"k0", timestamp=now)
    found = await until(lambda: read(cluster, topic), lambda found: 0 < len(found) <= 6)
    kept = [(record.offset, record.key, record.value) for record in found]
    assert kept == [
        # Compaction couldn't compare the others with the newest segment, which wasn't there yet.
        (36, b"k0", b"v36"),
        (37, b"k1", None),
        (38, b"k2", b"v38"),
        (39, b"k3", b"v39"),
        (40, b"k0", b"newest"),
    ]
    assert {record.timestamp for record in found[:4]} == {now - 10_000}


async def test_a_compacted_topic_needs_keys(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, config=COMPACT)
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        with pytest.raises(InvalidRecordError):
            await producer.send(topic, b"no key")


async def test_deleted_records(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(10):
            await producer.send(topic, b"%d" % number)
    partition = DeleteRecordsPartition(partition_index=0, offset=4)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=[partition])], timeout_ms=10_000)
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        response = (await client.request(request)).topics[0].partitions[0]
    assert (response.error_code, response.low_watermark) == (0, 4)
    assert [record.value for record in await read(cluster, topic)] == [b"%d" % number for number in range(4, 10)]
