"""A Kafka for tests that are not asynchronous, as those with Spark are: its cluster runs in a thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, TypeVar

from aiokproto.broker import Broker
from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from aiokproto.codec.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from aiokproto.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.config import ClusterConfig
from aiokproto.errors import check
from aiokproto.records import BatchRecord, encode
from aiokproto.records.control import encode_end_transaction
from aiokproto.spark.options import ReadOptions, parse_read_options
from tests.patience import PATIENCE

T = TypeVar("T")


class Kafka:
    """The embedded broker, and a client of it to produce with."""

    broker: Broker
    client: ClusterClient
    bootstrap_servers: str

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tests-kafka")

    def __enter__(self) -> Kafka:
        self._thread.start()
        try:
            self.run(self._start())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self.run(self._stop())
        finally:
            self._end()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)

    @classmethod
    def of(cls, bootstrap_servers: str, client: ClusterClient) -> Kafka:
        """Another cluster, on the event loop of whoever calls."""
        kafka = cls.__new__(cls)
        kafka.bootstrap_servers, kafka.client = bootstrap_servers, client
        return kafka

    def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        self.run(self.broker.create_topic(name, partitions=partitions, config=config))

    def add_partitions(self, topic: str, count: int) -> None:
        request = CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=count, assignments=None)],
            timeout_ms=10_000,
            validate_only=False,
        )
        for result in self.run(self.client.request(request)).results:
            check(result.error_code, f"adding partitions to {topic}", result.error_message)
        self.run(self._until_known(topic, count))

    def delete_topic(self, name: str) -> None:
        state = DeleteTopicState(name=name, topic_id=ZERO_UUID)
        request = DeleteTopicsRequest(topics=[state], topic_names=[name], timeout_ms=10_000)
        for result in self.run(self.client.request(request)).responses:
            check(result.error_code, f"deleting {name}")

    def delete_records(self, topic: str, partition: int, before: int) -> None:
        partitions = [DeleteRecordsPartition(partition_index=partition, offset=before)]
        request = DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic, partitions=partitions)], timeout_ms=10_000
        )
        for result in self.run(self.client.request(request, node=0)).topics[0].partitions:
            check(result.error_code, f"deleting records of {topic}-{partition}")

    def append(self, topic: str, partition: int, batch: bytes | bytearray) -> int:
        """Produce a batch as it is; returns its first offset."""
        return self.run(self.append_to(topic, partition, batch))

    def produce(self, topic: str, partition: int, records: Iterable[BatchRecord], compression: str = "none") -> None:
        """Produce records as one batch; their offsets have to be those that they will get."""
        records = list(records)
        renumbered = [BatchRecord(n, one.timestamp, one.key, one.value, one.headers) for n, one in enumerate(records)]
        self.run(self.append_to(topic, partition, encode(renumbered, compression=compression), records[0].offset))

    def append_marker(self, topic: str, partition: int) -> None:
        """Lay a transaction marker into the log: producers may not send one, and this broker has no transactions."""
        marker = encode_end_transaction(
            committed=True, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=1
        )

        async def append() -> None:
            self.broker._running.state.partition(topic, partition).append(marker, 1)

        self.run(append())

    def options(self, **options: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.bootstrap_servers, **options}

    def read_options(self, **options: str) -> ReadOptions:
        return parse_read_options(self.options(**options))

    async def _until_known(self, topic: str, partitions: int) -> None:
        """Wait for a snapshot with so many partitions; an earlier refresh may complete first."""
        await self.client.topic(topic)
        while len(self.client.snapshot.topics[topic].partitions) < partitions:
            generation = self.client.snapshot.generation
            self.client.metadata.invalidate("partitions were added")
            await self.client.metadata.wait_for_update(generation)

    async def _start(self) -> None:
        # The timestamps of these tests lie far back: retention would find them minutes later.
        self.broker = Broker(config={"log.retention.ms": -1})
        await self.broker.start()
        # Its thread starts with the first work, as a compaction: the test of that moment would have left it.
        await self.broker._running.opening.run(lambda: None)
        self.bootstrap_servers = self.broker.bootstrap_servers
        self.client = ClusterClient(ClusterConfig.parse({"bootstrap_servers": self.bootstrap_servers}))
        try:
            await self.client.start()
        except BaseException:
            await self.broker.close()
            raise

    async def _stop(self) -> None:
        try:
            await self.client.close()
        finally:
            await self.broker.close()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def append_to(self, topic: str, partition: int, batch: bytes | bytearray, base: int | None = None) -> int:
        await self.client.topic(topic)
        data = PartitionProduceData(index=partition, records=batch)
        request = ProduceRequest(
            acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=[data])]
        )
        leader = self.client.snapshot.leader(topic, partition)
        assert leader is not None
        # The last version that names the topic: a test may just have created it again, with another id.
        (answer,) = (await self.client.send(request, leader, max_version=12)).responses[0].partition_responses
        check(answer.error_code, f"producing to {topic}-{partition}", answer.error_message)
        assert base in (None, answer.base_offset)
        return answer.base_offset
