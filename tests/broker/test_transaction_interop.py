"""Third-party clients produce and consume in transactions, and move records and offsets together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokproto.broker import Broker, Cluster
from tests.broker.test_third_party_clients import SECONDS
from tests.java.compiler import PROGRAMS, command
from tests.timeouts import LONG_TIMEOUT

MOVER = PROGRAMS / "transactions" / "Mover.java"

ROUNDS = 4
EACH = 25


def round_of(number: int) -> list[bytes]:
    return [b"round %d, %d" % (number, each) for each in range(EACH)]


COMMITTED = [value for number in range(0, ROUNDS, 2) for value in round_of(number)]
"""Every other round is aborted."""


async def test_aiokafka() -> None:
    aiokafka: Any = pytest.importorskip("aiokafka")
    async with Cluster(2) as cluster:
        await cluster.create_topic("t", 3)
        servers = {"bootstrap_servers": cluster.bootstrap_servers}
        async with aiokafka.AIOKafkaProducer(transactional_id="tx", **servers) as producer:
            for number in range(ROUNDS):
                await producer.begin_transaction()
                for value in round_of(number):
                    await producer.send("t", value)
                await (producer.abort_transaction() if number % 2 else producer.commit_transaction())
            async with producer.transaction():
                await producer.send_offsets_to_transaction({aiokafka.TopicPartition("t", 0): 5}, "g2")
        async with aiokafka.AIOKafkaConsumer(
            "t",
            group_id="g",
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            isolation_level="read_committed",
            **servers,
        ) as consumer:
            found = [(await asyncio.wait_for(anext(consumer), LONG_TIMEOUT)).value for _ in COMMITTED]
            assert sorted(found) == sorted(COMMITTED)
            for partition in consumer.assignment():
                assert await consumer.position(partition) <= (await consumer.end_offsets([partition]))[partition]
        async with aiokafka.AIOKafkaConsumer(group_id="g2", enable_auto_commit=False, **servers) as other:
            assert await other.committed(aiokafka.TopicPartition("t", 0)) == 5


def consume(confluent: Any, servers: str, topic: str, count: int) -> list[bytes]:
    consumer = confluent.Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": f"reads {topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    try:
        found: list[bytes] = []
        while len(found) < count:
            messages = consumer.consume(count - len(found), LONG_TIMEOUT)
            assert messages, f"{len(found)} of {count} records"
            found += [message.value() for message in messages if message.error() is None]
        return found
    finally:
        consumer.close()


async def test_confluent_kafka() -> None:
    confluent: Any = pytest.importorskip("confluent_kafka")

    def run(servers: str) -> None:
        producer = confluent.Producer({"bootstrap.servers": servers, "transactional.id": "tx"})
        producer.init_transactions(LONG_TIMEOUT)
        for number in range(ROUNDS):
            producer.begin_transaction()
            for value in round_of(number):
                producer.produce("t", value)
            if number % 2:
                producer.flush(LONG_TIMEOUT)
                producer.abort_transaction(LONG_TIMEOUT)
            else:
                producer.commit_transaction(LONG_TIMEOUT)
        assert sorted(consume(confluent, servers, "t", len(COMMITTED))) == sorted(COMMITTED)

    async with Cluster(2) as cluster:
        await cluster.create_topic("t", 3)
        await asyncio.to_thread(run, cluster.bootstrap_servers)


async def test_confluent_kafka_moves_records_and_offsets_together() -> None:
    confluent: Any = pytest.importorskip("confluent_kafka")

    def produce(servers: str) -> None:
        producer = confluent.Producer({"bootstrap.servers": servers})
        for value in round_of(0):
            producer.produce("in", value)
        assert producer.flush(LONG_TIMEOUT) == 0

    def move(servers: str, count: int, commit: bool) -> None:
        """Read from the group's offset, and write the records. Both are committed, or neither."""
        consumer = confluent.Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "mover",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        consumer.subscribe(["in"])
        producer = confluent.Producer({"bootstrap.servers": servers, "transactional.id": "mover"})
        try:
            producer.init_transactions(LONG_TIMEOUT)
            messages: list[Any] = []
            while len(messages) < count:
                got = consumer.consume(count - len(messages), LONG_TIMEOUT)
                assert got
                messages += [each for each in got if each.error() is None]
            producer.begin_transaction()
            for message in messages:
                producer.produce("out", message.value())
            positions = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), LONG_TIMEOUT)
            if commit:
                producer.commit_transaction(LONG_TIMEOUT)
            else:
                producer.flush(LONG_TIMEOUT)
                producer.abort_transaction(LONG_TIMEOUT)
        finally:
            consumer.close()

    async with Broker() as broker:
        await broker.create_topic("in")
        await broker.create_topic("out")
        servers = broker.bootstrap_servers
        await asyncio.to_thread(produce, servers)
        await asyncio.to_thread(move, servers, 10, True)
        await asyncio.to_thread(move, servers, 10, False)
        await asyncio.to_thread(move, servers, EACH - 10, True)
        assert await asyncio.to_thread(consume, confluent, servers, "out", EACH) == round_of(0)


async def test_confluent_kafka_is_fenced_by_a_second_instance() -> None:
    confluent: Any = pytest.importorskip("confluent_kafka")

    def run(servers: str) -> None:
        options = {"bootstrap.servers": servers, "transactional.id": "tx"}
        first = confluent.Producer(options)
        first.init_transactions(LONG_TIMEOUT)
        first.begin_transaction()
        first.produce("t", b"old")
        first.flush(LONG_TIMEOUT)
        second = confluent.Producer(options)
        second.init_transactions(LONG_TIMEOUT)
        with pytest.raises(confluent.KafkaException) as caught:
            first.commit_transaction(LONG_TIMEOUT)
        assert caught.value.args[0].fatal()
        second.begin_transaction()
        second.produce("t", b"new")
        second.commit_transaction(LONG_TIMEOUT)
        assert consume(confluent, servers, "t", 1) == [b"new"]

    async with Broker() as broker:
        await broker.create_topic("t")
        await asyncio.to_thread(run, broker.bootstrap_servers)


async def run_java(*arguments: str) -> None:
    process = await asyncio.create_subprocess_exec(
        *arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        said, _ = await asyncio.wait_for(process.communicate(), SECONDS)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, said.decode()[-4000:]


@pytest.mark.java
@pytest.mark.kafka
async def test_java_moves_records_and_offsets_together() -> None:
    """This is the newest Kafka's client: its transactions have an epoch each, and writing to partitions adds them."""
    confluent: Any = pytest.importorskip("confluent_kafka")

    def produce(servers: str) -> None:
        producer = confluent.Producer({"bootstrap.servers": servers})
        for number, value in enumerate(COMMITTED):
            producer.produce("in", value, partition=number % 2)
        assert producer.flush(LONG_TIMEOUT) == 0

    async with Cluster(2) as cluster:
        await cluster.create_topic("in", 2)
        await cluster.create_topic("out", 2)
        servers = cluster.bootstrap_servers
        await asyncio.to_thread(produce, servers)
        await run_java(*command(MOVER, "Mover"), servers, "in", "out", str(len(COMMITTED)), "7")
        found = await asyncio.to_thread(consume, confluent, servers, "out", len(COMMITTED))
        assert sorted(found) == sorted(COMMITTED)
