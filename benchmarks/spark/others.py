"""Data sources over other Python clients: their records, made into the columns of Spark's own connector as Arrow.

Each does as little as it can: a task reads one partition from its start to the end that it had when it was planned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType, TimestampType

if TYPE_CHECKING:
    import pyarrow as pa

AT_ONCE = 10_000
TIMEOUT = 60.0
SCHEMA = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)

Row = tuple[bytes | None, bytes | None, int, int, int]
"""Key, value, offset, timestamp in milliseconds and its type."""


class Reader(DataSourceReader):
    """Plans a task for each partition."""

    def __init__(self, options: dict[str, str]) -> None:
        self.servers, self.topic = options["kafka.bootstrap.servers"], options["subscribe"]

    def partitions(self) -> list[InputPartition]:
        import confluent_kafka

        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.servers, "group.id": "benchmarks"})
        try:
            found = consumer.list_topics(self.topic, TIMEOUT).topics[self.topic].partitions
            ends = {
                index: consumer.get_watermark_offsets(confluent_kafka.TopicPartition(self.topic, index), TIMEOUT)[1]
                for index in found
            }
        finally:
            consumer.close()
        return [InputPartition(one) for one in ends.items()]

    def table(self, partition: int, rows: list[Row]) -> pa.RecordBatch:
        import pyarrow as pa

        keys, values, offsets, times, kinds = zip(*rows, strict=True)
        count = len(rows)
        return pa.RecordBatch.from_arrays(
            [
                pa.array(keys, pa.binary()),
                pa.array(values, pa.binary()),
                pa.array([self.topic] * count, pa.string()),
                pa.array([partition] * count, pa.int32()),
                pa.array(offsets, pa.int64()),
                pa.array(times, pa.timestamp("ms", tz="UTC")).cast(pa.timestamp("us", tz="UTC")),
                pa.array(kinds, pa.int32()),
            ],
            ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"],
        )


class ConfluentReader(Reader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import confluent_kafka

        index, end = partition.value
        consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "benchmarks",
                "enable.auto.commit": False,
                "check.crcs": True,
                "max.partition.fetch.bytes": 4 << 20,
                # It pauses when it has fetched ahead far enough, and a fast reader waits for it.
                "queued.min.messages": 1_000_000,
                "fetch.queue.backoff.ms": 5,
            }
        )
        try:
            consumer.assign([confluent_kafka.TopicPartition(self.topic, index, 0)])
            done = 0
            while done < end:
                # It would wait for messages that there are not.
                found = consumer.consume(min(AT_ONCE, end - done), 1.0)
                rows: list[Row] = []
                for message in found:
                    if message.error() is not None:
                        raise confluent_kafka.KafkaException(message.error())
                    kind, time = message.timestamp()
                    rows.append((message.key(), message.value(), int(message.offset() or 0), time, kind - 1))
                if rows:
                    done = rows[-1][2] + 1
                    yield self.table(index, rows)
        finally:
            consumer.close()


class AiokafkaReader(Reader):
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        import aiokafka

        index, end = partition.value
        loop = asyncio.new_event_loop()

        async def started() -> Any:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=self.servers, enable_auto_commit=False, max_partition_fetch_bytes=4 << 20
            )
            await consumer.start()
            consumer.assign([aiokafka.TopicPartition(self.topic, index)])
            await consumer.seek_to_beginning()
            return consumer

        consumer = loop.run_until_complete(started())
        try:
            done = 0
            while done < end:
                found = loop.run_until_complete(consumer.getmany(timeout_ms=1000, max_records=AT_ONCE))
                for messages in found.values():
                    yield self.table(
                        index, [(one.key, one.value, one.offset, one.timestamp, one.timestamp_type) for one in messages]
                    )
                    done = messages[-1].offset + 1
        finally:
            loop.run_until_complete(consumer.stop())
            loop.close()


class ConfluentSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "confluent-kafka"

    def schema(self) -> StructType:
        return SCHEMA

    def reader(self, schema: StructType) -> ConfluentReader:
        return ConfluentReader(dict(self.options))


class AiokafkaSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "aiokafka"

    def schema(self) -> StructType:
        return SCHEMA

    def reader(self, schema: StructType) -> AiokafkaReader:
        return AiokafkaReader(dict(self.options))


SOURCES = (ConfluentSource, AiokafkaSource)
