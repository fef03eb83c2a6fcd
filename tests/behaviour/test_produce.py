"""Producing, on the embedded broker and on real Kafka. The logs are read with raw Fetch requests."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from aiokproto.codec.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from aiokproto.config import ClusterConfig
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BootstrapError, DeadlineError, MessageTooLargeError, UnknownTopicError
from aiokproto.producer import Delivery, Producer, ProducerRecord, murmur2
from aiokproto.records import BatchRecord, RecordBatch, decode
from aiokproto.types import RecordMetadata
from tests.behaviour.waiting import until
from tests.clusters import BehaviourCluster
from tests.timeouts import LONG_TIMEOUT

LAST_FETCH_WITH_NAMES = 12
KEEP = {"retention.ms": "-1"}
"""For records with old timestamps, which real Kafka would delete in the middle of a test."""


async def stored_batches(servers: str, topic: str) -> dict[int, list[RecordBatch]]:
    """Partition → all batches of its log."""
    cluster = ClusterClient(ClusterConfig.parse({"bootstrap_servers": servers}))
    await cluster.start()
    try:
        info = await cluster.topic(topic, LONG_TIMEOUT)
        return {
            number: await _log(cluster, topic, number, partition.leader)
            for number, partition in enumerate(info.partitions)
        }
    finally:
        await cluster.close()


async def _log(cluster: ClusterClient, topic: str, partition: int, leader: int) -> list[RecordBatch]:
    batches: list[RecordBatch] = []
    offset, end = 0, await _end(cluster, topic, partition, leader)
    while offset < end:
        wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(max_wait_ms=100, min_bytes=1, topics=[FetchTopic(topic=topic, partitions=[wanted])])
        response = await cluster.send(request, leader, max_version=LAST_FETCH_WITH_NAMES)
        data = response.responses[0].partitions[0]
        assert data.error_code == 0, ErrorCode(data.error_code)
        for batch in decode(bytes(data.records or b"")):
            batches.append(batch)
            offset = batch.next_offset
    return batches


async def _end(cluster: ClusterClient, topic: str, partition: int, leader: int) -> int:
    """The end of the log. A new leader may have a lower high watermark for a while, and returns an error (KIP-207)."""
    wanted = ListOffsetsPartition(partition_index=partition, timestamp=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])

    async def ask() -> ListOffsetsPartitionResponse:
        return (await cluster.send(request, leader)).topics[0].partitions[0]

    # The leader itself may not know of a new topic yet.
    response = await until(
        ask, lambda found: found.error_code not in (ErrorCode.OFFSET_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    )
    assert response.error_code == 0, ErrorCode(response.error_code)
    return response.offset


async def stored(servers: str, topic: str) -> dict[int, list[BatchRecord]]:
    """Partition → all its records."""
    found = await stored_batches(servers, topic)
    return {partition: [record for batch in batches for record in batch] for partition, batches in found.items()}


async def values_of(servers: str, topic: str) -> dict[int, list[bytes | None]]:
    return {
        partition: [record.value for record in records] for partition, records in (await stored(servers, topic)).items()
    }


def producer(cluster: BehaviourCluster, **options: Any) -> Producer:
    return Producer(bootstrap_servers=cluster.bootstrap_servers, **options)


@pytest.mark.parametrize("acks", [0, 1, -1, "all"])
async def test_every_acks(cluster: BehaviourCluster, topic: str, acks: Any) -> None:
    await cluster.create_topic(topic)
    async with producer(cluster, acks=acks) as writer:
        places = [await writer.send(topic, b"%d" % number) for number in range(3)]
    if acks in (0, 1):
        # There is no response, or one before the followers have the record. So the last record may not be visible yet.
        await _until_stored(cluster, topic, 3)
    assert [place.offset for place in places] == ([-1, -1, -1] if acks == 0 else [0, 1, 2])
    assert await values_of(cluster.bootstrap_servers, topic) == {0: [b"0", b"1", b"2"]}


async def _until_stored(cluster: BehaviourCluster, topic: str, count: int) -> None:
    while len((await stored(cluster.bootstrap_servers, topic))[0]) < count:
        await asyncio.sleep(0)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_every_compression(cluster: BehaviourCluster, topic: str, codec: Any) -> None:
    await cluster.create_topic(topic)
    values = [b"flight %06d " % number * 8 for number in range(2000)]
    async with producer(cluster, compression_type=codec) as writer:
        outcomes = await writer.send_many(topic, values)
    assert [outcome.offset for outcome in outcomes if isinstance(outcome, RecordMetadata)] == list(range(2000))
    batches = (await stored_batches(cluster.bootstrap_servers, topic))[0]
    assert {batch.compression.name.lower() for batch in batches} == {codec}
    assert [record.value for batch in batches for record in batch] == values


async def test_every_kind_of_record(cluster: BehaviourCluster, topic: str) -> None:
    """Keys, headers (also repeated, empty and null), tombstones, empty values, timestamps."""
    await cluster.create_topic(topic, config=KEEP)
    headers = (("trace", b"1"), ("trace", b"2"), ("empty", b""), ("null", None), ("naïve", b"\x00\xff"))
    async with producer(cluster) as writer:
        await writer.send(topic, b"v", key=b"k", headers=headers, timestamp=1_700_000_000_123)
        await writer.send(topic, None, key=b"tombstone", timestamp=1)
        await writer.send(topic, b"", key=b"", timestamp=0)
        await writer.send(topic, None, headers=[("only", b"header")], timestamp=1_600_000_000_000)
        now = await writer.send(topic, b"x" * 500_000)
    records = (await stored(cluster.bootstrap_servers, topic))[0]
    assert [(record.key, record.value, record.timestamp) for record in records] == [
        (b"k", b"v", 1_700_000_000_123),
        (b"tombstone", None, 1),
        (b"", b"", 0),
        (None, None, 1_600_000_000_000),
        (None, b"x" * 500_000, now.timestamp),
    ]
    assert (records[0].headers, records[3].headers) == (headers, (("only", b"header"),))


async def test_with_log_append_time_the_timestamp_is_the_brokers(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, config={"message.timestamp.type": "LogAppendTime"})
    async with producer(cluster) as writer:
        where = await writer.send(topic, b"v", timestamp=1000)
    (record,) = (await stored(cluster.bootstrap_servers, topic))[0]
    assert where.timestamp == record.timestamp > 1000


async def test_keys_are_placed_as_by_other_clients(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=5)
    keys = [b"key-%d" % number for number in range(200)]
    async with producer(cluster) as writer:
        await writer.send_many(topic, [ProducerRecord(key, key=key) for key in keys])
    found = await values_of(cluster.bootstrap_servers, topic)
    assert found == {
        partition: [key for key in keys if (murmur2(key) & 0x7FFFFFFF) % 5 == partition] for partition in range(5)
    }


async def test_records_without_key_reach_all_partitions(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=3)
    async with producer(cluster, batch_size=2000) as writer:
        outcomes = await writer.send_many(topic, [b"x" * 100] * 2000)
    partitions = [outcome.partition for outcome in outcomes if isinstance(outcome, RecordMetadata)]
    assert len(partitions) == 2000
    assert set(partitions) == {0, 1, 2}


async def test_an_explicit_partition(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=3)
    async with producer(cluster) as writer:
        for partition in (2, 0, 2):
            await writer.send(topic, b"v", key=b"any", partition=partition)
    assert {number: len(found) for number, found in (await stored(cluster.bootstrap_servers, topic)).items()} == {
        0: 1,
        1: 0,
        2: 2,
    }


async def test_batches_too_large_for_the_topic_are_split(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, config={"max.message.bytes": "2000"})
    values = [b"%04d" % number * 25 for number in range(300)]
    async with producer(cluster) as writer:
        outcomes = await writer.send_many(topic, values)
        assert [outcome.offset for outcome in outcomes if isinstance(outcome, RecordMetadata)] == list(range(300))
        with pytest.raises(MessageTooLargeError, match=topic):
            await writer.send(topic, b"x" * 3000)
        assert (await writer.send(topic, b"after")).offset == 300
    assert await values_of(cluster.bootstrap_servers, topic) == {0: [*values, b"after"]}


async def test_an_unknown_topic(cluster: BehaviourCluster, topic: str) -> None:
    async with producer(cluster) as writer:
        with pytest.raises(UnknownTopicError, match=topic):
            await writer.send(topic, b"v")


async def test_a_wrong_bootstrap_address() -> None:
    """Nothing listens on port 1."""
    writer = Producer(bootstrap_servers="127.0.0.1:1", bootstrap_resolve_timeout_ms=100)
    with pytest.raises(BootstrapError, match=r"127\.0\.0\.1:1"):
        await writer.start()


async def test_many_tasks_send_at_once(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=4)
    async with producer(cluster) as writer:
        places = await asyncio.gather(*(writer.send(topic, b"%d" % number) for number in range(500)))
    found = await values_of(cluster.bootstrap_servers, topic)
    assert all(found[place.partition][place.offset] == b"%d" % number for number, place in enumerate(places))


async def test_flush_and_close(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    hour_ms = 3_600_000
    writer = producer(cluster, linger_ms=hour_ms, delivery_timeout_ms=2 * hour_ms)
    await writer.start()
    flushed = await writer.post(topic, b"1")
    await writer.flush(timeout_ms=LONG_TIMEOUT * 1000)
    assert flushed.result().offset == 0
    closed = await writer.post(topic, b"2")
    await writer.close(timeout_ms=LONG_TIMEOUT * 1000)
    assert closed.result().offset == 1


async def test_producing_more_than_buffer_memory(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    async with producer(cluster, buffer_memory=100_000, batch_size=10_000) as writer:
        deliveries = [await writer.post(topic, b"%05d" % number * 200, partition=number % 2) for number in range(1000)]
        for number, delivery in enumerate(deliveries):
            assert (await delivery).offset == number // 2


async def stream_through_leader_moves(cluster: BehaviourCluster, topic: str, writer: Producer) -> int:
    """Post numbers from 0 on to two partitions in turn, while both leaders move twice; returns how many."""
    deliveries: list[Delivery] = []
    moving = True
    posted = asyncio.Event()

    async def stream() -> None:
        while moving:
            number = len(deliveries)
            deliveries.append(await writer.post(topic, b"%d" % number, partition=number % 2))
            posted.set()
            if not number % 50:
                await deliveries[-1]

    streaming = asyncio.create_task(stream())
    try:
        for round_number in range(4):
            seen = len(deliveries)
            while len(deliveries) < seen + 200:
                posted.clear()
                await asyncio.wait_for(posted.wait(), LONG_TIMEOUT)
            await cluster.move_leader(topic, round_number % 2)
    finally:
        moving = False
        await streaming
    for delivery in deliveries:
        await delivery
    return len(deliveries)


async def test_every_record_is_stored_once_while_leaders_move(cluster3: BehaviourCluster, topic: str) -> None:
    await cluster3.create_topic(topic, partitions=2, replication=3)
    async with producer(cluster3, batch_size=1000, linger_ms=1) as writer:
        count = await stream_through_leader_moves(cluster3, topic, writer)
    found = await values_of(cluster3.bootstrap_servers, topic)
    for partition in (0, 1):
        assert found[partition] == [b"%d" % number for number in range(partition, count, 2)]


async def test_without_idempotence_records_may_repeat_but_none_is_missing(
    cluster3: BehaviourCluster, topic: str
) -> None:
    """A leader that resigns may have stored the batch that it rejects, so the retry repeats it."""
    await cluster3.create_topic(topic, partitions=2, replication=3)
    options = {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1}
    async with producer(cluster3, batch_size=1000, linger_ms=1, **options) as writer:
        count = await stream_through_leader_moves(cluster3, topic, writer)
    found = await values_of(cluster3.bootstrap_servers, topic)
    for partition in (0, 1):
        first_seen = list(dict.fromkeys(found[partition]))
        assert first_seen == [b"%d" % number for number in range(partition, count, 2)]


@pytest.mark.exclusive
async def test_records_wait_for_a_broker_that_restarts(cluster3: BehaviourCluster, topic: str) -> None:
    """The partition has no other replica, so records wait for the broker. Then each is stored once."""
    await cluster3.create_topic(topic, partitions=3)
    async with producer(cluster3, linger_ms=0, retry_backoff_ms=20, retry_backoff_max_ms=100) as writer:
        await writer.send_many(topic, [ProducerRecord(b"0", partition=partition) for partition in range(3)])
        elsewhere, node, _ = await _leaders(cluster3, topic)
        assert elsewhere != node
        await cluster3.stop_broker(node)
        try:
            waiting = [await writer.post(topic, b"%d" % number, partition=1) for number in range(1, 20)]
            other = await writer.send(topic, b"1", partition=0)
            assert other.offset == 1, "partitions of other brokers go on"
        finally:
            await cluster3.start_broker(node)
        assert [(await delivery).offset for delivery in waiting] == list(range(1, 20))
    found = await values_of(cluster3.bootstrap_servers, topic)
    assert found[1] == [b"%d" % number for number in range(20)]


async def _leaders(cluster: BehaviourCluster, topic: str) -> list[int]:
    client = ClusterClient(ClusterConfig.parse({"bootstrap_servers": cluster.bootstrap_servers}))
    await client.start()
    try:
        return [partition.leader for partition in (await client.topic(topic, LONG_TIMEOUT)).partitions]
    finally:
        await client.close()


@pytest.mark.exclusive
async def test_closing_without_a_live_broker_reports_lost_records(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, replication=1)
    writer = producer(cluster, linger_ms=0)
    await writer.start()
    await writer.send(topic, b"0")
    (node,) = await _leaders(cluster, topic)
    await cluster.stop_broker(node)
    try:
        lost = await writer.post(topic, b"1")
        with pytest.raises(DeadlineError, match=rf"closed with 1 record \({topic}-0: 1.* not delivered"):
            await writer.close(timeout_ms=300)
        assert lost.exception() is not None
    finally:
        await cluster.start_broker(node)
