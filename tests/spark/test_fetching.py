"""Fetch requests of tasks, and their retries: the options of fetching have an effect."""

from __future__ import annotations

import asyncio
import os
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from aiokproto.cluster import ClusterClient
from aiokproto.cluster.snapshot import ClusterSnapshot, PartitionInfo, TopicInfo
from aiokproto.codec.messages.fetch import FetchRequest, PartitionData
from aiokproto.codec.messages.list_offsets import ListOffsetsRequest
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.config import ClusterConfig
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, CorruptRecordError, DeadlineError, UnknownTopicError
from aiokproto.records import BatchRecord, LegacyBatch, encode
from aiokproto.records.runs import Run
from aiokproto.simulation import Simulation
from aiokproto.spark import worker as workers
from aiokproto.spark.fetching import BY_NAME, RangeFetcher
from aiokproto.spark.leaders import request_leaders
from aiokproto.spark.offsets import DataLossError, OffsetRange
from aiokproto.spark.options import parse_read_options
from aiokproto.spark.planning import plan_now
from aiokproto.spark.reading import read_range, to_arrow
from aiokproto.spark.worker import Worker
from aiokproto.types import TopicPartition
from tests.spark.kafka import Kafka
from tests.spark.test_reading import NOW, some_records


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[FetchRequest, dict[str, Any]]]:
    """The Fetch requests, with how they were sent."""
    found: list[tuple[FetchRequest, dict[str, Any]]] = []
    send = ClusterClient.send

    async def recorded(self: ClusterClient, request: Any, node: int, **how: Any) -> Any:
        if isinstance(request, FetchRequest):
            found.append((request, how))
        return await send(self, request, node, **how)

    monkeypatch.setattr(ClusterClient, "send", recorded)
    return found


def test_a_fetch_request_follows_the_options(
    kafka: Kafka, worker: Worker, topic: str, sent: list[tuple[FetchRequest, dict[str, Any]]]
) -> None:
    kafka.create_topic(topic)
    kafka.produce(topic, 0, some_records(3))
    chosen = {
        "kafka.fetch.max.wait.ms": "7",
        "kafka.fetch.min.bytes": "3",
        "kafka.max.partition.fetch.bytes": "50000",
        "kafka.fetch.max.bytes": "40000",
        "kafka.isolation.level": "read_committed",
    }
    options = kafka.read_options(subscribe=topic, **chosen)
    (planned,) = plan_now(options).ranges
    assert len(list(read_range(worker, planned, options))) == 1
    (request, how) = sent[0]
    assert (request.max_wait_ms, request.min_bytes, request.max_bytes, request.isolation_level) == (7, 3, 40_000, 1)
    (topic_request,) = request.topics
    (partition,) = topic_request.partitions
    assert partition.partition_max_bytes == 40_000
    assert partition.current_leader_epoch == kafka.client.snapshot.leader_epoch(topic, 0) == 0
    assert (topic_request.topic_id, how["max_version"]) == (planned.topic_id, None)


def test_a_topic_without_an_id_is_fetched_by_its_name(
    kafka: Kafka, worker: Worker, topic: str, sent: list[tuple[FetchRequest, dict[str, Any]]]
) -> None:
    kafka.create_topic(topic)
    kafka.produce(topic, 0, some_records(3))
    options = kafka.read_options(subscribe=topic)
    planned = replace(plan_now(options).ranges[0], topic_id=ZERO_UUID)
    (table,) = read_range(worker, planned, options)
    assert table.num_rows == 3
    assert sent[0][1]["max_version"] == BY_NAME


def test_a_short_range_does_not_fetch_much_behind_its_end(kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic)
    kafka.produce(topic, 0, some_records(3))
    options = kafka.read_options(subscribe=topic)
    kafka.run(kafka.client.topic(topic))
    planned = plan_now(options).ranges[0]

    def asked(end: int, *responses: bytes) -> int:
        fetcher = RangeFetcher(kafka.client, replace(planned, end=end), options)
        for records in responses:
            data = PartitionData(partition_index=0, error_code=0, high_watermark=end, records=memoryview(records))
            fetcher._batches(data)
        return fetcher._request(1).max_bytes

    large = encode([BatchRecord(0, NOW, None, bytes(100_000))])
    assert asked(1) == 1 << 16
    assert asked(1000) == int(1000 * 1024 * 1.1)
    assert asked(1_000_000) == options.fetch.max_bytes == 4 << 20
    # Then it is known how large records are.
    assert asked(3, large) == int(2 * len(large) * 1.1)
    assert asked(10_003, encode(some_records(3))) < 2 << 20
    # A record that is larger than the limit comes cut, from brokers before 0.10.1.
    assert asked(1000, large[:100]) == 2 * int(1000 * 1024 * 1.1)


def test_a_batch_truncated_by_an_old_broker_is_fetched_whole(kafka: Kafka, topic: str) -> None:
    kafka.create_topic(topic)
    kafka.produce(topic, 0, some_records(3))
    options = kafka.read_options(subscribe=topic, **{"kafka.max.partition.fetch.bytes": "64"})
    kafka.run(kafka.client.topic(topic))
    fetcher = RangeFetcher(kafka.client, plan_now(options).ranges[0], options)
    cut = encode(some_records(3))[:64]
    answer = PartitionData(partition_index=0, error_code=0, high_watermark=3, records=memoryview(cut))
    assert fetcher._batches(answer) == []
    assert fetcher._request(1).max_bytes == 128


def fetcher_of(start: int, end: int, **options: str) -> RangeFetcher:
    """A fetcher that is given responses, and sends no requests."""
    given = {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", **options}
    return RangeFetcher(
        ClusterClient(ClusterConfig.parse({"bootstrap_servers": "127.0.0.1:1"})),
        OffsetRange("t", bytes(16), 0, start, end),
        parse_read_options(given),
    )


def received(fetcher: RangeFetcher, records: bytes) -> list[int]:
    """The base offsets of the batches to read in a response."""
    answer = PartitionData(partition_index=0, error_code=0, high_watermark=9, records=memoryview(records))
    found = [one.batches() if isinstance(one, Run) else [one] for one in fetcher._batches(answer)]
    return [batch.base_offset for batches in found for batch in batches]


def batch_at(offset: int, place: int = 0, bits: int = 0) -> bytes:
    batch = bytearray(encode([BatchRecord(offset, NOW, None, b"v")], base_offset=offset))
    batch[place] ^= bits
    return bytes(batch)


@pytest.mark.parametrize(
    ("place", "bits", "problem"),
    [
        (8, 128, "length -2147483591 is too small"),
        (22, 0x20, "checksum is"),
        (60, 1, "checksum is"),
    ],
    ids=["its length is wrong", "it has become a control batch", "it has become empty"],
)
def test_a_damaged_batch_without_records_to_read_is_named(place: int, bits: int, problem: str) -> None:
    damaged = batch_at(0) + batch_at(1, place, bits) + batch_at(2)
    answer = PartitionData(partition_index=0, error_code=0, high_watermark=3, records=memoryview(damaged))
    wanted, options = OffsetRange("t", bytes(16), 0, 0, 3), fetcher_of(0, 3)._options
    with pytest.raises(CorruptRecordError, match=f"^reading t-0 offsets 0 to 3: record batch at offset 1: {problem}"):
        list(to_arrow(fetcher_of(0, 3)._batches(answer), wanted, options))
    unchecked = fetcher_of(0, 3, **{"kafka.check.crcs": "false"})
    if place != 8:
        assert received(unchecked, damaged) == [0, 2]


def test_damage_behind_a_range_does_not_matter() -> None:
    gzipped = bytes(encode([BatchRecord(0, NOW, None, b"v")], compression="gzip"))
    for good in (batch_at(0), gzipped):
        fetcher = fetcher_of(0, 1)
        assert received(fetcher, good + batch_at(1, 8, 128)) == [0]
        assert fetcher.done


def test_a_compressed_set_of_an_old_format_is_not_opened_by_the_fetcher(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is done a piece at a time, where the records are read: it can be gigabytes."""
    records = [BatchRecord(offset, NOW, None, b"v") for offset in range(5)]
    data = bytes(encode(records, magic=1, compression="gzip"))
    monkeypatch.setattr(LegacyBatch, "records", None)
    fetcher = fetcher_of(0, 5)
    answer = PartitionData(partition_index=0, error_code=0, high_watermark=9, records=memoryview(data))
    assert len(fetcher._batches(answer)) == 1
    assert fetcher.done


def test_batches_below_the_position_are_no_progress() -> None:
    fetcher = fetcher_of(3, 5)
    assert received(fetcher, batch_at(1) + batch_at(2)) == []
    assert received(fetcher, batch_at(3) + batch_at(2)) == []
    assert fetcher.position == 3
    assert received(fetcher, batch_at(2) + batch_at(3)) == [2, 3]
    assert fetcher.position == 4


def test_a_batch_that_is_always_truncated_is_requested_with_the_largest_size() -> None:
    fetcher = fetcher_of(0, 5)
    for _ in range(2000):
        assert received(fetcher, batch_at(0)[:50]) == []
    assert fetcher._max_bytes == 2**31 - 1
    assert fetcher._size <= 2**31 - 1


def test_a_log_truncated_while_it_is_read_is_data_loss_with_any_options(
    kafka: Kafka, worker: Worker, topic: str
) -> None:
    kafka.create_topic(topic)
    for start in (0, 5):
        kafka.produce(topic, 0, some_records(5, start))
    options = kafka.read_options(subscribe=topic, failOnDataLoss="false")
    planned = replace(plan_now(options).ranges[0], start=7)
    kafka.run(diverge(kafka, topic))
    with pytest.raises(DataLossError, match=r"log no longer has offset 7, although it begins at 0: it was truncated"):
        list(read_range(worker, planned, options))


@pytest.mark.parametrize(("step", "ends"), [(1, None), (0, "received no records from offset 0 on, .* in 1.5 s")])
def test_a_range_may_take_longer_than_the_timeout_as_long_as_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, step: int, ends: str | None
) -> None:
    class Snapshot:
        generation = 0

        def leader(self, topic: str, partition: int) -> None:
            return None

    class FakeCluster:
        snapshot = Snapshot()
        backoff = SimpleNamespace(delay=lambda failures: 0.1)

    async def fetch_what_has_no_records(self: RangeFetcher, timeout: float) -> list[Any]:
        answered = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(1, answered.set_result, None)
        await answered
        self.position += step
        return []

    monkeypatch.setattr(RangeFetcher, "_fetch_once", fetch_what_has_no_records)
    given = {"kafka.bootstrap.servers": "a:9092", "subscribe": "t", "kafkaConsumer.pollTimeoutMs": "1500"}
    cluster: Any = FakeCluster()
    fetcher = RangeFetcher(cluster, OffsetRange("t", ZERO_UUID, 0, 0, 10), parse_read_options(given))
    simulation = Simulation()
    if ends is None:
        assert simulation.run(fetcher.fetch()) is None
        assert simulation.time() > 10
    else:
        with pytest.raises(DeadlineError, match=ends):
            simulation.run(fetcher.fetch())


async def diverge(kafka: Kafka, topic: str) -> None:
    kafka.broker.diverge_log(topic, 0, 5)


@pytest.mark.parametrize("retries", [0, 2])
async def test_retries_and_their_interval_follow_the_options(
    kafka: Kafka, topic: str, monkeypatch: pytest.MonkeyPatch, retries: int
) -> None:
    chosen = {"fetchOffset.numRetries": str(retries), "fetchOffset.retryIntervalMs": "1234"}
    options = kafka.read_options(subscribe=topic, **chosen)
    calls, paused = 0, list[float]()

    class Snapshot:
        def leader(self, topic: str, partition: int) -> int:
            return 1

    class FakeCluster:
        snapshot = Snapshot()
        metadata = SimpleNamespace(invalidate=lambda reason: None)

    async def refuse(node: int, partitions: list[TopicPartition]) -> list[Any]:
        nonlocal calls
        calls += 1
        raise BrokerError(ErrorCode.LEADER_NOT_AVAILABLE, "asking")

    async def sleep(seconds: float) -> None:
        paused.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    cluster: Any = FakeCluster()
    with pytest.raises(BrokerError):
        await request_leaders(cluster, ListOffsetsRequest, [TopicPartition(topic, 0)], refuse, options)
    assert calls == retries + 1
    assert paused == [1.234] * retries


async def test_a_topic_that_the_metadata_have_dropped_does_not_exist(kafka: Kafka, topic: str) -> None:
    """Not a partition without a leader, which would be waited for."""
    options = kafka.read_options(subscribe=topic, **{"fetchOffset.numRetries": "0"})
    led = TopicInfo("led", ZERO_UUID, (PartitionInfo(leader=1),))

    class FakeCluster:
        snapshot = ClusterSnapshot(topics={"led": led, "leaderless": TopicInfo("leaderless", ZERO_UUID, ())})

    async def send(node: int, partitions: list[TopicPartition]) -> list[Any]:
        return [(partition, PartitionData()) for partition in partitions]

    cluster: Any = FakeCluster()
    wanted = [TopicPartition("led", 0), TopicPartition("leaderless", 0)]
    with pytest.raises(BrokerError, match="leaderless-0: LEADER_NOT_AVAILABLE"):
        await request_leaders(cluster, ListOffsetsRequest, wanted, send, options)
    with pytest.raises(UnknownTopicError, match=f"ListOffsets of {topic}-0"):
        await request_leaders(cluster, ListOffsetsRequest, [*wanted, TopicPartition(topic, 0)], send, options)


def test_a_worker_is_that_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    mine = workers.worker()
    assert workers.worker() is mine
    monkeypatch.setattr(workers, "_workers", dict(workers._workers))
    monkeypatch.setattr(os, "getpid", lambda: -1)
    forked = workers.worker()
    assert forked is not mine
    forked.close()


def test_a_plain_connection_is_not_reused_for_an_encrypted_one(monkeypatch: pytest.MonkeyPatch, worker: Worker) -> None:
    class FakeCluster:
        def __init__(self, config: Any) -> None:
            self.config = config

        async def start(self) -> None:
            await asyncio.sleep(0)

        def check(self) -> None:
            pass

        topic = close = lambda self, *_: self.start()

    monkeypatch.setattr(workers, "ClusterClient", FakeCluster)
    plain = {"bootstrap_servers": "localhost:9092", "security_protocol": "PLAINTEXT"}
    first = worker.cluster(plain, "t")
    assert worker.cluster(dict(plain), "t") is first
    assert worker.cluster({**plain, "security_protocol": "SSL"}, "t") is not first
