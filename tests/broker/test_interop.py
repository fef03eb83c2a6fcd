"""Third-party clients against the broker: produce with every codec, read with a group, commit, continue."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokproto.broker import Broker, Cluster
from tests.timeouts import LONG_TIMEOUT

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
VALUES = [b"value %d" % number for number in range(1000)]


@pytest.mark.parametrize("codec", CODECS)
async def test_aiokafka(codec: str) -> None:
    aiokafka: Any = pytest.importorskip("aiokafka")
    async with Cluster(2) as cluster:
        await cluster.create_topic("t", 3)
        servers = {"bootstrap_servers": cluster.bootstrap_servers}
        compression = None if codec == "none" else codec
        async with aiokafka.AIOKafkaProducer(
            compression_type=compression, enable_idempotence=True, **servers
        ) as producer:
            await asyncio.gather(*[await producer.send("t", value) for value in VALUES])
        found: list[bytes] = []
        while len(found) < len(VALUES):
            # Each consumer reads a part, commits it, and leaves. The next one continues after it.
            async with aiokafka.AIOKafkaConsumer(
                "t", group_id="g", auto_offset_reset="earliest", enable_auto_commit=False, **servers
            ) as consumer:
                part = await consumer.getmany(timeout_ms=int(LONG_TIMEOUT * 1000), max_records=400)
                found += [record.value for records in part.values() for record in records]
                await consumer.commit()
        assert sorted(found) == sorted(VALUES)


@pytest.mark.parametrize("codec", CODECS)
async def test_confluent_kafka(codec: str) -> None:
    confluent: Any = pytest.importorskip("confluent_kafka")

    def run(servers: str) -> None:
        errors: list[object] = []
        producer = confluent.Producer(
            {"bootstrap.servers": servers, "compression.type": codec, "enable.idempotence": True}
        )
        for value in VALUES:
            producer.produce("t", value, on_delivery=lambda error, _: errors.append(error))
        assert producer.flush(LONG_TIMEOUT) == 0
        assert errors == [None] * len(VALUES)
        found: list[bytes] = []
        while len(found) < len(VALUES):
            consumer = confluent.Consumer(
                {
                    "bootstrap.servers": servers,
                    "group.id": "g",
                    "auto.offset.reset": "earliest",
                    "enable.auto.commit": False,
                }
            )
            consumer.subscribe(["t"])
            messages = consumer.consume(250, LONG_TIMEOUT)
            assert messages, f"{len(found)} records"
            found += [message.value() for message in messages if message.error() is None]
            consumer.commit(asynchronous=False)
            consumer.close()
        assert sorted(found) == sorted(VALUES)

    async with Broker() as broker:
        await broker.create_topic("t", 3)
        await asyncio.to_thread(run, broker.bootstrap_servers)


async def test_a_confluent_consumer_follows_the_leader() -> None:
    confluent: Any = pytest.importorskip("confluent_kafka")

    def produce(servers: str, count: int) -> None:
        producer = confluent.Producer({"bootstrap.servers": servers, "enable.idempotence": True})
        for value in VALUES[:count]:
            producer.produce("t", value)
        assert producer.flush(LONG_TIMEOUT) == 0

    def consume(consumer: Any, count: int) -> int:
        return len([message for message in consumer.consume(count, LONG_TIMEOUT) if message.error() is None])

    async with Cluster(3) as cluster:
        await cluster.create_topic("t", 1, replication=3)
        servers = cluster.bootstrap_servers
        consumer = confluent.Consumer({"bootstrap.servers": servers, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        try:
            await asyncio.to_thread(produce, servers, 100)
            assert await asyncio.to_thread(consume, consumer, 100) == 100
            await cluster.stop_broker(cluster.leader("t", 0))
            await asyncio.to_thread(produce, servers, 50)
            assert await asyncio.to_thread(consume, consumer, 50) == 50
        finally:
            await asyncio.to_thread(consumer.close)
