"""Reading after transactions, on real Kafka: markers, aborted records, and an open transaction."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from aiokproto.codec.messages.end_txn import EndTxnRequest
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.codec.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from aiokproto.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aiokproto.config import ClusterConfig
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import check
from aiokproto.records import BatchBuilder, encode
from aiokproto.spark.offsets import LATEST
from aiokproto.spark.options import parse_read_options
from aiokproto.spark.planning import plan_now
from aiokproto.spark.reading import read_range
from aiokproto.spark.worker import Worker
from tests.kafka.pool import RunningKafka
from tests.spark.test_reading import some_records

pytestmark = pytest.mark.kafka

RECORDS = 5
PARTITION = 0


class Transactions:
    """One transactional producer of one partition, each step a request (all of versions that verify partitions)."""

    def __init__(self, cluster: ClusterClient, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._id = f"{topic}-id"
        self._sequence = 0

    async def start(self) -> None:
        request = InitProducerIdRequest(transactional_id=self._id, transaction_timeout_ms=600_000)
        answer = await self._cluster.request(request, max_version=4)
        check(answer.error_code, "InitProducerId")
        self._producer_id, self._epoch = answer.producer_id, answer.producer_epoch

    async def begin_and_send(self) -> None:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._id,
            v3_and_below_producer_id=self._producer_id,
            v3_and_below_producer_epoch=self._epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self._topic, partitions=[PARTITION])],
        )
        code = ErrorCode.CONCURRENT_TRANSACTIONS
        while code == ErrorCode.CONCURRENT_TRANSACTIONS:
            answer = await self._cluster.request(request, key=self._id, max_version=3)
            result = answer.results_by_topic_v3_and_below[0].results_by_partition[0]
            code = ErrorCode(result.partition_error_code)
        check(code, "AddPartitionsToTxn")
        builder = BatchBuilder(
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequence,
            is_transactional=True,
        )
        for record in some_records(RECORDS):
            builder.append(record.timestamp, record.key, record.value, record.headers)
        self._sequence += RECORDS
        await produce(self._cluster, self._topic, bytes(builder.close()), self._id)

    async def end(self, *, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self._id,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=committed,
        )
        check((await self._cluster.request(request, max_version=3)).error_code, "EndTxn")
        # The response comes before the marker is written, and the next transaction can only start after it.
        while await self._end_offset(isolation_level=1) != await self._end_offset(isolation_level=0):
            pass

    async def _end_offset(self, isolation_level: int) -> int:
        leader = self._cluster.snapshot.leader(self._topic, PARTITION)
        wanted = [ListOffsetsPartition(partition_index=PARTITION, timestamp=LATEST)]
        topics = [ListOffsetsTopic(name=self._topic, partitions=wanted)]
        request = ListOffsetsRequest(replica_id=-1, isolation_level=isolation_level, topics=topics)
        answer = (await self._cluster.request(request, node=leader)).topics[0].partitions[0]
        check(answer.error_code, "ListOffsets")
        return answer.offset


async def produce(cluster: ClusterClient, topic: str, batch: bytes, transactional_id: str | None = None) -> None:
    leader = cluster.snapshot.leader(topic, PARTITION)
    assert leader is not None
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=PARTITION, records=batch)])
    request = ProduceRequest(transactional_id=transactional_id, acks=-1, timeout_ms=10_000, topic_data=[data])
    answer = await cluster.send(request, leader, max_version=11)
    check(answer.responses[0].partition_responses[0].error_code, "Produce")


@pytest.fixture
def worker() -> Iterator[Worker]:
    running = Worker()
    yield running
    running.close()


@pytest.fixture
async def cluster(kafka1: RunningKafka, topic: str) -> AsyncIterator[ClusterClient]:
    from tests.kafka import admin

    # Retention would delete records with old timestamps.
    await asyncio.to_thread(admin.create_topic, kafka1, topic, 1, 1, {"retention.ms": "-1"})
    async with ClusterClient(ClusterConfig.parse({"bootstrap_servers": kafka1.bootstrap_servers})) as running:
        await running.topic(topic)
        yield running


def offsets(worker: Worker, kafka: RunningKafka, topic: str, **options: str) -> list[int]:
    servers = {"kafka.bootstrap.servers": kafka.bootstrap_servers, "subscribe": topic, "columns": "offset"}
    parsed = parse_read_options({**servers, **options})
    ranges = plan_now(parsed).ranges
    return [offset for one in ranges for table in read_range(worker, one, parsed) for offset in table[0].to_pylist()]


async def test_isolation_levels(kafka1: RunningKafka, cluster: ClusterClient, worker: Worker, topic: str) -> None:
    """0-4 plain, 5-9 committed, 10 its marker, 11-15 aborted, 16 its marker, 17-21 plain, 22-26 open."""
    transactions = Transactions(cluster, topic)
    await transactions.start()
    await produce(cluster, topic, bytes(encode(some_records(RECORDS))))
    for committed in (True, False):
        await transactions.begin_and_send()
        await transactions.end(committed=committed)
    await produce(cluster, topic, bytes(encode(some_records(RECORDS))))
    await transactions.begin_and_send()

    def read(**options: str) -> list[int]:
        return offsets(worker, kafka1, topic, **options)

    level = {"kafka.isolation.level": "read_committed"}
    plain_and_committed = [*range(10), *range(17, 22)]
    everything = [*range(10), *range(11, 16), *range(17, 27)]
    assert await asyncio.to_thread(read) == everything
    assert await asyncio.to_thread(read, **level) == plain_and_committed
    # Each task reads a part of the aborted transaction, and some nothing else.
    assert await asyncio.to_thread(read, maxRecordsPerPartition="2", **level) == plain_and_committed
    await transactions.end(committed=True)
    assert await asyncio.to_thread(read, **level) == [*plain_and_committed, *range(22, 27)]
