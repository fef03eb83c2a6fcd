"""Reading without a group, on the embedded broker and on real Kafka."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest
from aiokproto.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.config import ClusterConfig
from aiokproto.consumer import Consumer, OffsetReset, PartitionStatus, ResetReason
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import ClientClosedError, ConfigurationError, OffsetOutOfRangeError, UnknownTopicError
from aiokproto.records import BatchRecord, Compression, encode
from aiokproto.types import Record, TimestampType, TopicPartition
from tests.behaviour.feed import EPOCH, append, fill, value
from tests.broker.wire import Wire
from tests.clusters import BehaviourCluster, embedded_cluster
from tests.timeouts import LONG_TIMEOUT

Place = tuple[int, int]
Reset = Literal["earliest", "latest", "none"]


def reader(cluster: BehaviourCluster, *topics: str, reset: Reset = "earliest", **options: Any) -> Consumer:
    return Consumer(*topics, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset=reset, **options)


async def take(consumer: Consumer, count: int) -> list[Record]:
    return [await anext(consumer) for _ in range(count)]


def partition_ids(records: list[Record]) -> list[Place]:
    return [(record.partition, record.offset) for record in records]


def everything(partitions: int, count: int) -> list[Place]:
    return [(partition, offset) for partition in range(partitions) for offset in range(count)]


async def delete_records(cluster: BehaviourCluster, topic: str, before: int) -> None:
    async with ClusterClient(ClusterConfig.parse({"bootstrap_servers": cluster.bootstrap_servers})) as admin:
        await admin.topic(topic)
        partitions = [DeleteRecordsPartition(partition_index=0, offset=before)]
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=10_000
        )
        leader = admin.snapshot.leader(topic, 0)
        assert leader is not None
        response = await admin.send(request, leader)
        assert [entry.error_code for entry in response.topics[0].partitions] == [0]


async def test_reads_all_records_of_all_partitions(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=3)
    await fill(cluster, topic, 55, [0, 1, 2])
    async with reader(cluster, topic) as consumer:
        records: list[Record] = []
        async for record in consumer:
            records.append(record)
            if len(records) == 165:
                break
        assert sorted(partition_ids(records)) == everything(3, 55)
        for record in records:
            assert record.topic == topic
            assert (record.key, record.value, record.headers) == (b"key", value(record.offset), ())
            assert (record.timestamp, record.timestamp_type) == (EPOCH + record.offset, TimestampType.CREATE_TIME)
        assert await consumer.poll(timeout_ms=10) == []


async def test_partitions_are_read_in_turn(cluster: BehaviourCluster, topic: str) -> None:
    """The consumer doesn't read one partition to its end while others have records, too."""
    await cluster.create_topic(topic, partitions=2)
    await fill(cluster, topic, 200, [0, 1])
    async with reader(cluster, topic) as consumer:
        while any(not consumer.lag((topic, number)) for number in (0, 1)):
            await consumer.end_offsets()
        first = await take(consumer, 60)
        assert {record.partition for record in first} == {0, 1}


@pytest.mark.parametrize("compression", list(Compression), ids=lambda one: one.name.lower())
async def test_reads_every_compression(cluster: BehaviourCluster, topic: str, compression: Compression) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 50, compression=compression)
    async with reader(cluster, topic) as consumer:
        assert [record.value for record in await take(consumer, 50)] == [value(number) for number in range(50)]


async def test_a_record_larger_than_the_fetch_limits_arrives(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    large = bytes(500_000)
    async with ClusterClient(ClusterConfig.parse({"bootstrap_servers": cluster.bootstrap_servers})) as feeding:
        for content in (b"before", large, b"after"):
            await append(feeding, topic, 0, encode([BatchRecord(0, EPOCH, None, content)]))
    async with Consumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        fetch_max_bytes=1000,
        max_partition_fetch_bytes=1000,
    ) as consumer:
        assert [record.value for record in await take(consumer, 3)] == [b"before", large, b"after"]


async def test_batches_hold_the_same_records(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    await fill(cluster, topic, 45, [0, 1])
    async with reader(cluster, topic) as consumer:
        await take(consumer, 3)
        # Reading batches continues after the last record, in the middle of a stored batch.
        [partition] = [number for number in (0, 1) if await consumer.position((topic, number)) == 3]
        seen: list[Place] = []
        rows = 0
        async for batch in consumer.batches():
            records = list(batch)
            assert batch.topic == topic
            assert batch.base_offset == records[0].offset
            assert batch.next_offset == records[-1].offset + 1 == await consumer.position((topic, batch.partition))
            table = batch.to_arrow()
            assert table.column("offset").to_pylist() == [record.offset for record in records]
            assert table.column("value").to_pylist() == [record.value for record in records]
            rows += table.num_rows
            seen += partition_ids(records)
            if len(seen) == 87:
                break
        assert rows == 87
        assert sorted(seen) == sorted(set(everything(2, 45)) - {(partition, offset) for offset in range(3)})


async def test_poll_is_bounded_in_records_and_time(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 25)
    async with reader(cluster, topic) as consumer:
        seen: list[Place] = []
        while len(seen) < 25:
            some = await consumer.poll(max_records=7, timeout_ms=LONG_TIMEOUT * 1000)
            assert 1 <= len(some) <= 7
            seen += partition_ids(some)
        assert seen == everything(1, 25)
        assert await consumer.poll(max_records=7, timeout_ms=1) == []


@pytest.mark.parametrize("in_group", [False, True])
async def test_poll_collects_min_records_from_several_partitions_and_fetches(
    cluster: BehaviourCluster, topic: str, in_group: bool
) -> None:
    await cluster.create_topic(topic, partitions=2)
    await fill(cluster, topic, 20, [0, 1])
    async with reader(cluster, topic, group_id=topic if in_group else None, max_partition_fetch_bytes=100) as consumer:
        records = await consumer.poll(LONG_TIMEOUT * 1000, 40, min_records=40)
        assert sorted(partition_ids(records)) == sorted(everything(2, 20))
        collecting = asyncio.create_task(consumer.poll(LONG_TIMEOUT * 1000, min_records=2))
        await fill(cluster, topic, 1, [0, 1])
        assert [record.offset for record in await collecting] == [20, 20]
        assert await consumer.poll(1, 2, min_records=2) == []


async def test_seek_and_position(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 40)
    at = TopicPartition(topic, 0)
    async with reader(cluster, topic) as consumer:
        assert await consumer.position(at) == 0
        assert partition_ids(await take(consumer, 5)) == [(0, offset) for offset in range(5)]
        assert await consumer.position(at) == 5
        consumer.seek(at, 33)
        assert await consumer.position(at) == 33
        assert partition_ids(await take(consumer, 2)) == [(0, 33), (0, 34)]
        consumer.seek_to_beginning(at)
        assert partition_ids(await take(consumer, 1)) == [(0, 0)]
        consumer.seek_to_time(EPOCH + 21)
        assert partition_ids(await take(consumer, 1)) == [(0, 21)]
        consumer.seek_to_end()
        assert await consumer.position(at) == 40
        await fill(cluster, topic, 1, start=40)
        assert partition_ids(await take(consumer, 1)) == [(0, 40)]


@pytest.mark.parametrize("turns", range(6))
async def test_a_seek_right_after_the_assignment_wins_over_the_first_lookup(
    cluster: BehaviourCluster, topic: str, turns: int
) -> None:
    """The seek wins, however far the lookup of the start position is when it's called."""
    await cluster.create_topic(topic, partitions=1)
    await fill(cluster, topic, 3)
    for seek in (Consumer.seek_to_beginning, lambda one: one.seek_to_time(EPOCH), lambda one: one.seek((topic, 0), 0)):
        async with reader(cluster, reset="latest") as consumer:
            consumer.assign((topic, 0))
            for _ in range(turns):
                await asyncio.sleep(0)
            seek(consumer)
            assert partition_ids(await take(consumer, 1)) == [(0, 0)]


async def test_paused_partitions_return_no_records_and_keep_their_position(
    cluster: BehaviourCluster, topic: str
) -> None:
    await cluster.create_topic(topic, partitions=2)
    await fill(cluster, topic, 30, [0, 1])
    async with reader(cluster, topic) as consumer:
        consumer.assignment()
        first = await anext(consumer)
        mine = (topic, first.partition)
        consumer.pause(mine)
        assert consumer.paused() == {mine}
        assert consumer.partition_state(mine).status is PartitionStatus.PAUSED
        others = await take(consumer, 30)
        assert {record.partition for record in others} == {1 - first.partition}
        assert await consumer.poll(timeout_ms=20) == []
        consumer.resume(mine)
        assert [record.offset for record in await take(consumer, 29)] == list(range(1, 30))


async def test_offsets_of_the_log(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    await fill(cluster, topic, 20, [0])
    zero, one = TopicPartition(topic, 0), TopicPartition(topic, 1)
    async with reader(cluster, topic) as consumer:
        assert await consumer.partitions_for_topic(topic) == [zero, one]
        assert await consumer.beginning_offsets(zero, one) == {zero: 0, one: 0}
        assert await consumer.end_offsets() == {zero: 20, one: 0}
        times = await consumer.offsets_for_times({zero: EPOCH + 7, one: EPOCH + 7})
        found = times[zero]
        assert found is not None
        assert (found.offset, found.timestamp) == (7, EPOCH + 7)
        assert times[one] is None
        assert await consumer.offsets_for_times({zero: EPOCH + 5000}) == {zero: None}


async def test_latest_reads_only_later_records(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 10)
    async with reader(cluster, topic, reset="latest") as consumer:
        assert await consumer.position((topic, 0)) == 10
        await fill(cluster, topic, 3, start=10)
        assert partition_ids(await take(consumer, 3)) == [(0, 10), (0, 11), (0, 12)]


async def test_assigned_partitions_alone_are_read(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=3)
    await fill(cluster, topic, 10, [0, 1, 2])
    async with reader(cluster) as consumer:
        consumer.assign((topic, 1))
        assert partition_ids(await take(consumer, 4)) == [(1, offset) for offset in range(4)]
        consumer.assign((topic, 1), (topic, 2))
        more = await take(consumer, 16)
        # Partition 1 continues at its position.
        assert sorted(partition_ids(more)) == [(1, offset) for offset in range(4, 10)] + [
            (2, offset) for offset in range(10)
        ]
        with pytest.raises(ConfigurationError, match="unsubscribe"):
            consumer.subscribe(topic)
        await consumer.unsubscribe()
        assert consumer.assignment() == frozenset()
        consumer.subscribe(topic)
        assert len(await take(consumer, 30)) == 30


async def test_a_pattern_subscribes_to_matching_topics(cluster: BehaviourCluster, topic: str) -> None:
    for name in ("a", "b", "other"):
        await cluster.create_topic(f"{topic}.{name}")
        await fill(cluster, f"{topic}.{name}", 5)
    async with reader(cluster) as consumer:
        consumer.subscribe(pattern=topic.replace(".", r"\.") + r"\.[ab]")
        records = await take(consumer, 10)
        assert {record.topic for record in records} == {f"{topic}.a", f"{topic}.b"}


async def test_a_leader_change_loses_and_repeats_nothing(cluster3: BehaviourCluster, topic: str) -> None:
    await cluster3.create_topic(topic, partitions=2, replication=3)
    await fill(cluster3, topic, 20, [0, 1])
    async with reader(cluster3, topic) as consumer:
        seen = await take(consumer, 40)
        for round_number in (1, 2):
            await cluster3.move_leader(topic, 0)
            await fill(cluster3, topic, 20, [0, 1], start=20 * round_number)
            seen += await take(consumer, 40)
        assert sorted(partition_ids(seen)) == everything(2, 60)


@pytest.mark.exclusive
async def test_reading_continues_soon_after_a_broker_stops(cluster3: BehaviourCluster, topic: str) -> None:
    await cluster3.create_topic(topic, partitions=1, replication=3)
    await fill(cluster3, topic, 10)
    async with reader(cluster3, topic) as consumer:
        seen = await take(consumer, 10)
        leader = await cluster3.move_leader(topic, 0)
        await fill(cluster3, topic, 10, start=10)
        seen += await take(consumer, 10)
        await cluster3.stop_broker(leader)
        await fill(cluster3, topic, 10, start=20)
        seen += await take(consumer, 10)
        assert partition_ids(seen) == everything(1, 30)


async def test_an_unknown_topic_is_named(cluster: BehaviourCluster, topic: str) -> None:
    consumer = reader(cluster, topic)
    with pytest.raises(UnknownTopicError, match=topic):
        await consumer.start()
    with pytest.raises(ClientClosedError):
        await anext(consumer)


async def test_a_topic_that_is_subscribed_later_and_unknown_is_named(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 1)
    async with reader(cluster) as consumer:
        consumer.subscribe(f"{topic}-not")
        with pytest.raises(UnknownTopicError, match=f"{topic}-not"):
            await anext(consumer)
        consumer.subscribe(topic)
        assert len(await take(consumer, 1)) == 1


async def test_a_deleted_topic_is_named(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 3)
    async with reader(cluster) as consumer:
        consumer.assign((topic, 0))
        assert len(await take(consumer, 3)) == 3
        async with ClusterClient(ClusterConfig.parse({"bootstrap_servers": cluster.bootstrap_servers})) as admin:
            await admin.request(DeleteTopicsRequest(topic_names=[topic], timeout_ms=10_000), max_version=5)
        with pytest.raises(UnknownTopicError, match=topic):
            await anext(consumer)
        # The consumer still looks for the topic, because it may be created again.
        assert "UNKNOWN_TOPIC" in str(consumer.partition_state((topic, 0)))


async def test_an_offset_out_of_range_follows_auto_offset_reset(
    cluster: BehaviourCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 20)
    await delete_records(cluster, topic, 15)
    with caplog.at_level(logging.INFO, logger="aiokproto.consumer"):
        async with reader(cluster, topic) as consumer:
            consumer.seek((topic, 0), 3)
            assert partition_ids(await take(consumer, 5)) == [(0, offset) for offset in range(15, 20)]
    assert "at offset 3: the offset is outside the log; continuing at offset 15" in caplog.text


@pytest.mark.parametrize(("position", "continues"), [(3, 15), (14, 15), (21, 20), (99, 20)])
async def test_an_offset_out_of_range_moves_to_the_nearest_end(
    cluster: BehaviourCluster, topic: str, position: int, continues: int
) -> None:
    resets: list[OffsetReset] = []
    moved = asyncio.Event()

    def note(reset: OffsetReset) -> None:
        resets.append(reset)
        moved.set()

    await cluster.create_topic(topic)
    await fill(cluster, topic, 20)
    await delete_records(cluster, topic, 15)
    options: dict[str, Any] = {"auto_offset_reset": "nearest", "on_offset_reset": note}
    async with Consumer(topic, bootstrap_servers=cluster.bootstrap_servers, **options) as consumer:
        # It starts at the first offset, because none is committed.
        assert partition_ids(await take(consumer, 1)) == [(0, 15)]
        consumer.seek((topic, 0), position)
        reading = asyncio.create_task(take(consumer, 1))
        await asyncio.wait_for(moved.wait(), LONG_TIMEOUT)
        await fill(cluster, topic, 1, start=20)
        assert partition_ids(await reading) == [(0, continues)]
    assert [(each.reason, each.position, each.offset) for each in resets] == [
        (ResetReason.OUT_OF_RANGE, position, continues)
    ]


async def test_an_offset_out_of_range_raises_without_auto_offset_reset(cluster: BehaviourCluster, topic: str) -> None:
    """Every call raises it again, until the user seeks."""
    await cluster.create_topic(topic)
    await fill(cluster, topic, 20)
    async with reader(cluster, reset="none") as consumer:
        consumer.assign((topic, 0))
        with pytest.raises(OffsetOutOfRangeError, match="auto_offset_reset is 'none'"):
            await anext(consumer)
        consumer.seek((topic, 0), 99)
        for _ in range(2):
            with pytest.raises(OffsetOutOfRangeError, match=f"{topic}-0 at offset 99"):
                await consumer.poll(timeout_ms=LONG_TIMEOUT * 1000)
        consumer.seek((topic, 0), 19)
        assert partition_ids(await take(consumer, 1)) == [(0, 19)]


async def test_every_assigned_partition_has_a_status(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 10)
    async with reader(cluster) as consumer:
        assert consumer.partition_state((topic, 0)).status is PartitionStatus.UNASSIGNED
        consumer.assign((topic, 0))
        await take(consumer, 10)
        # The status is a different one between two fetches.
        while consumer.partition_state((topic, 0)).status is not PartitionStatus.FETCHING:
            assert await consumer.poll(timeout_ms=10) == []
        assert consumer.lag((topic, 0)) == 0


async def test_a_closed_consumer_refuses_calls(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    consumer = reader(cluster, topic)
    with pytest.raises(ClientClosedError, match="not started"):
        await anext(consumer)
    await consumer.start()
    waiting = asyncio.create_task(anext(consumer))
    await asyncio.sleep(0)
    await consumer.close()
    with pytest.raises(ClientClosedError, match="closed"):
        await waiting
    with pytest.raises(ClientClosedError, match="closed"):
        await anext(consumer)
    calls: tuple[Callable[[], None], ...] = (
        lambda: consumer.seek((topic, 0), 0),
        consumer.seek_to_beginning,
        consumer.pause,
        consumer.resume,
        lambda: consumer.subscribe(topic),
        lambda: consumer.assign((topic, 0)),
    )
    for call in calls:
        with pytest.raises(ClientClosedError, match="closed"):
            call()
    await consumer.close()


async def test_a_record_can_be_requested_from_another_thread(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 1)
    async with reader(cluster, topic) as consumer:
        loop = asyncio.get_running_loop()

        def work() -> Record:
            return asyncio.run_coroutine_threadsafe(anext(consumer), loop).result(LONG_TIMEOUT)

        assert (await asyncio.to_thread(work)).offset == 0


async def test_calls_raise_after_an_internal_task_was_cancelled(cluster: BehaviourCluster, topic: str) -> None:
    """Cancelling any internal task makes the pending and all later calls raise."""
    await cluster.create_topic(topic)
    async with reader(cluster, topic) as consumer:
        waiting = asyncio.create_task(anext(consumer))
        while not (found := [task for task in asyncio.all_tasks() if task.get_name() == "aiokproto-consumer-fetch"]):
            await consumer.end_offsets()
        [victim] = found
        victim.cancel()
        with pytest.raises(ClientClosedError, match="fetch task"):
            await waiting
        with pytest.raises(ClientClosedError, match="fetch task"):
            await consumer.end_offsets()


async def test_closing_ends_at_its_deadline_without_a_live_broker(topic: str) -> None:
    async with embedded_cluster(3) as brokers:
        await brokers.create_topic(topic)
        await fill(brokers, topic, 5)
        servers = brokers.bootstrap_servers
        hour_ms = 3_600_000
        consumer = Consumer(
            topic,
            bootstrap_servers=servers,
            group_id=topic,
            auto_offset_reset="earliest",
            default_api_timeout_ms=hour_ms,
        )
        await consumer.start()
        await take(consumer, 5)
        for node in (0, 1, 2):
            await brokers.stop_broker(node)
        # close() has its own deadline, because otherwise it would wait an hour for a coordinator.
        await asyncio.wait_for(consumer.close(timeout_ms=1000), LONG_TIMEOUT)
        with pytest.raises(ClientClosedError):
            await anext(consumer)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(waits=st.lists(st.integers(0, 12), min_size=1, max_size=60), style=st.sampled_from(["record", "poll", "batch"]))
def test_cancelling_at_any_point_loses_and_repeats_nothing(waits: list[int], style: str) -> None:
    """Each call is cancelled after some loop iterations; all returned records together are the log, in order."""

    async def next_places(consumer: Consumer) -> list[Place]:
        if style == "record":
            return partition_ids([await anext(consumer)])
        if style == "poll":
            return partition_ids(await consumer.poll(max_records=7, timeout_ms=LONG_TIMEOUT * 1000))
        return partition_ids(list(await anext(consumer.batches())))

    async def run() -> None:
        async with embedded_cluster(1) as broker:
            await broker.create_topic("t", partitions=2)
            await fill(broker, "t", 30, [0, 1])
            seen: list[Place] = []
            async with reader(broker, "t") as consumer:
                for turns in waits:
                    call = asyncio.ensure_future(next_places(consumer))
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    call.cancel()
                    try:
                        seen += await call
                    except asyncio.CancelledError:
                        continue
                    if len(seen) == 60:
                        break
                while len(seen) < 60:
                    seen += await next_places(consumer)
        for partition in (0, 1):
            assert [place for place in seen if place[0] == partition] == [(partition, offset) for offset in range(30)]

    asyncio.run(run())


async def test_an_offset_out_of_range_comes_without_offsets_of_the_log(cluster: BehaviourCluster, topic: str) -> None:
    """As in ReplicaManager.readFromLog(): a client that wants to know the log's ends sends ListOffsets."""
    await cluster.create_topic(topic)
    await fill(cluster, topic, 5)
    host, port = cluster.bootstrap_servers.split(",")[0].rsplit(":", 1)
    wire = Wire(*await asyncio.open_connection(host, int(port)))
    try:
        metadata = await wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
        leader = metadata.topics[0].partitions[0].leader_id
        node = next(each for each in metadata.brokers if each.node_id == leader)
        wire.writer.close()
        wire = Wire(*await asyncio.open_connection(node.host, node.port))
        partition = FetchPartition(partition=0, fetch_offset=99, partition_max_bytes=1000)
        request = FetchRequest(
            max_wait_ms=0, min_bytes=0, max_bytes=1000, topics=[FetchTopic(topic=topic, partitions=[partition])]
        )
        response = (await wire.ask(request, 12)).responses[0].partitions[0]
    finally:
        wire.writer.close()
    assert response.error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert (response.high_watermark, response.last_stable_offset, response.log_start_offset) == (-1, -1, -1)
