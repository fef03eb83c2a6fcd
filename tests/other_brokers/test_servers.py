"""Producer, consumer, groups and transactions against franz-go's kfake and librdkafka's mock cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiokproto import Consumer, Producer, ShareConsumer
from aiokproto.client import Client
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokproto.errors import UnsupportedVersionError
from aiokproto.types import TopicPartition
from tests.other_brokers.servers import PARTITIONS, Server, kfake
from tests.other_brokers.workload import (
    VALUES,
    commit_in_transaction,
    consume,
    consume_in_turn,
    produce,
    read_across_a_move,
    transact,
)

pytestmark = [pytest.mark.slow, pytest.mark.extended]

GROUP_RESOURCE = 32


@pytest.mark.parametrize("acks", [0, 1, "all"])
async def test_what_is_produced_is_read(server: Server, topic: str, acks: Any) -> None:
    await server.create_topic(topic, PARTITIONS)
    assert await produce(server.bootstrap_servers, topic, acks=acks) == len(VALUES)
    assert await consume(server.bootstrap_servers, topic) == sorted(VALUES)


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
async def test_every_compression(server: Server, topic: str, compression: Any) -> None:
    await server.create_topic(topic, PARTITIONS)
    await produce(server.bootstrap_servers, topic, compression_type=compression)
    assert await consume(server.bootstrap_servers, topic) == sorted(VALUES)


async def test_a_topic_that_is_created_by_the_first_request(server: Server, topic: str) -> None:
    await produce(server.bootstrap_servers, topic)
    assert await consume(server.bootstrap_servers, topic) == sorted(VALUES)


async def test_offsets_of_the_log_and_seeks(server: Server, topic: str) -> None:
    await server.create_topic(topic)
    await produce(server.bootstrap_servers, topic)
    at = TopicPartition(topic, 0)
    async with Consumer(topic, bootstrap_servers=server.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        assert await consumer.beginning_offsets(at) == {at: 0}
        assert await consumer.end_offsets(at) == {at: len(VALUES)}
        for offset in (0, 17, 4, len(VALUES) - 1):
            consumer.seek(at, offset)
            assert (await anext(consumer)).offset == offset
        consumer.seek(at, len(VALUES) + 100)
        assert (await anext(consumer)).offset == 0, "beyond the end: auto_offset_reset"


async def test_a_group_goes_on_where_it_has_committed(server: Server, topic: str) -> None:
    await server.create_topic(topic, PARTITIONS)
    await produce(server.bootstrap_servers, topic)
    assert await consume_in_turn(server.bootstrap_servers, topic) == sorted(VALUES)


async def test_an_assigned_consumer_of_a_group_that_does_not_exist(server: Server, topic: str) -> None:
    await server.create_topic(topic)
    await produce(server.bootstrap_servers, topic)
    async with Consumer(
        bootstrap_servers=server.bootstrap_servers, group_id=topic, auto_offset_reset="earliest"
    ) as consumer:
        consumer.assign((topic, 0))
        assert (await anext(consumer)).offset == 0
        await consumer.commit()
        found = await consumer.committed((topic, 0))
    assert found[TopicPartition(topic, 0)] is not None


async def test_a_leader_that_moves_loses_and_repeats_nothing(server: Server, topic: str) -> None:
    await server.create_topic(topic, PARTITIONS)
    half = len(VALUES) // 2
    async with (
        Producer(bootstrap_servers=server.bootstrap_servers) as producer,
        Consumer(topic, bootstrap_servers=server.bootstrap_servers, auto_offset_reset="earliest") as consumer,
    ):
        seen = []
        for values in (VALUES[:half], VALUES[half:]):
            assert not (await producer.send_many(topic, values)).errors
            seen += [(await anext(consumer)).value for _ in values]
            for partition in range(PARTITIONS):
                await server.move_leader(topic, partition)
    assert sorted(seen, key=VALUES.index) == VALUES  # type: ignore[arg-type]


async def test_a_leader_that_has_not_written_yet_does_not_reset_consumers(server: Server, topic: str) -> None:
    await server.create_topic(topic, 1)
    assert await read_across_a_move(server.bootstrap_servers, topic, lambda: server.move_leader(topic, 0)) == VALUES


async def test_offsets_are_committed_in_a_transaction(fake: Server, topic: str) -> None:
    await fake.create_topic(topic)
    assert await commit_in_transaction(fake.bootstrap_servers, topic) == 7


async def test_the_mock_cluster_accepts_offsets_in_a_transaction_and_forgets_them(mock: Server, topic: str) -> None:
    await mock.create_topic(topic)
    assert await commit_in_transaction(mock.bootstrap_servers, topic) == -1


async def test_a_committed_transaction_is_read(server: Server, topic: str) -> None:
    await server.create_topic(topic, PARTITIONS)
    await transact(server.bootstrap_servers, topic)
    # The mock cluster also delivers the aborted records.
    count = len(VALUES) if server.hides_aborted else 2 * len(VALUES)
    found = await consume(server.bootstrap_servers, topic, count, isolation_level="read_committed")
    assert sorted(set(found)) == sorted(VALUES)


# ---- kfake alone


async def test_a_group_of_the_consumer_protocol(fake: Server, topic: str) -> None:
    await fake.create_topic(topic, PARTITIONS)
    await produce(fake.bootstrap_servers, topic)
    found = await consume_in_turn(fake.bootstrap_servers, topic, group_protocol="consumer")
    assert found == sorted(VALUES)


async def test_two_members_share_the_partitions(fake: Server, topic: str) -> None:
    await fake.create_topic(topic, PARTITIONS)
    await produce(fake.bootstrap_servers, topic)
    options: dict[str, Any] = {
        "bootstrap_servers": fake.bootstrap_servers,
        "group_id": topic,
        "auto_offset_reset": "earliest",
        "heartbeat_interval_ms": 100,
    }
    async with Consumer(topic, **options) as one, Consumer(topic, **options) as other:
        while not (one.assignment() and other.assignment()):
            await one.poll(timeout_ms=20)
            await other.poll(timeout_ms=20)
        assert len(one.assignment() | other.assignment()) == PARTITIONS
        assert not one.assignment() & other.assignment()


async def test_brokers_and_coordinators_come_and_go(fake: Server, topic: str) -> None:
    """Groups move to other coordinators, a broker leaves, and another one comes; records may be read again."""
    await fake.create_topic(topic, PARTITIONS)
    async with (
        Producer(bootstrap_servers=fake.bootstrap_servers) as producer,
        Consumer(
            topic,
            bootstrap_servers=fake.bootstrap_servers,
            group_id=topic,
            auto_offset_reset="earliest",
            heartbeat_interval_ms=100,
        ) as consumer,
    ):
        seen: set[bytes | None] = set()
        for number, change in enumerate([("rehash",), ("remove", 1), ("add",), ("rehash",), ()]):
            values = VALUES[6 * number : 6 * number + 6]
            assert not (await producer.send_many(topic, values)).errors
            while not seen.issuperset(values):
                seen.add((await anext(consumer)).value)
            if change:
                await fake.command(*change)
    assert seen == set(VALUES)


@pytest.mark.parametrize("release", ["v0.11.0", "v1.0", "v2.4", "v2.8", "v3.7", "v4.0"])
async def test_kfake_as_older_releases(kfake_program: Path, topic: str, release: str) -> None:
    async with kfake(kfake_program, release=release) as fake:
        await fake.create_topic(topic, PARTITIONS)
        await transact(fake.bootstrap_servers, topic)
        found = await consume(fake.bootstrap_servers, topic, isolation_level="read_committed")
        assert found == sorted(VALUES)
        assert await consume_in_turn(fake.bootstrap_servers, topic, isolation_level="read_committed") == found


async def test_records_of_a_share_group_are_accepted_once(fake: Server, topic: str) -> None:
    await fake.create_topic(topic, PARTITIONS)
    await produce(fake.bootstrap_servers, topic)
    change = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=topic, configs=[change])
    async with Client(bootstrap_servers=fake.bootstrap_servers) as client:
        response = await client.request(IncrementalAlterConfigsRequest(resources=[resource]))
        assert response.responses[0].error_code == 0, response
    seen: list[bytes | None] = []
    for _ in range(2):
        async with ShareConsumer(topic, bootstrap_servers=fake.bootstrap_servers, group_id=topic) as consumer:
            while len(seen) < len(VALUES):
                seen += [record.value for record in await consumer.poll(1000)]
    assert sorted(seen, key=VALUES.index) == VALUES  # type: ignore[arg-type]


# ---- librdkafka's mock cluster alone


async def test_an_api_that_the_mock_cluster_lacks_is_named(mock: Server, topic: str) -> None:
    await mock.command("limit", 22, -1, -1)
    with pytest.raises(UnsupportedVersionError, match="InitProducerId"):
        await produce(mock.bootstrap_servers, topic, enable_idempotence=True)
    assert await produce(mock.bootstrap_servers, topic) == len(VALUES)


async def test_a_broker_of_the_mock_cluster_that_is_down_for_a_while(mock: Server, topic: str) -> None:
    await mock.create_topic(topic)
    async with Producer(bootstrap_servers=mock.bootstrap_servers) as producer:
        await producer.send(topic, VALUES[0])
        leader, _ = await mock.leader(topic, 0)
        await mock.command("down", leader)
        waiting = asyncio.create_task(producer.send(topic, VALUES[1]))
        await asyncio.sleep(0)
        await mock.command("up", leader)
        await waiting
    assert await consume(mock.bootstrap_servers, topic, 2) == VALUES[:2]
