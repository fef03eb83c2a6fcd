"""Dead-letter queues of share groups (KIP-1191), on the embedded broker and on real Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aiokproto import Client, Consumer, Producer, Record, ShareConsumer
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokproto.error_codes import ErrorCode
from tests.behaviour.share_harness import ShareHarness, share_harness
from tests.clusters import BehaviourCluster
from tests.timeouts import LONG_TIMEOUT

GROUP, TOPIC, BROKER = 32, 2, 4
REJECTED = b"Offset rejected by client."
TOO_OFTEN = b"Offset delivery count exceeded the threshold."


async def change(client: Client, kind: int, name: str, **options: str) -> ErrorCode:
    """Set options, with ``_`` for a dot in their names; returns once they are described so."""
    configs = [
        AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value) for key, value in options.items()
    ]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    response = await client.request(IncrementalAlterConfigsRequest(resources=[resource]))
    code = ErrorCode(response.responses[0].error_code)
    wanted = DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=[config.name for config in configs]
    )
    known: dict[str, str | None] = {}
    while not code and known != {config.name: config.value for config in configs}:
        found = await client.request(DescribeConfigsRequest(resources=[wanted]))
        known = {each.name: each.value for each in found.results[0].configs}
    return code


@asynccontextmanager
async def dead_letters(
    cluster: BehaviourCluster, topic: str, *, partitions: int = 1, enabled: str = "true", **options: str
) -> AsyncIterator[tuple[ShareHarness, str]]:
    """A share group with a dead-letter topic, its name."""
    queue = f"dlq.{topic}"
    async with share_harness(cluster, topic, delivery_count_limit="2") as at:
        await cluster.create_topic(queue, partitions=partitions)
        await change(at.client, TOPIC, queue, errors_deadletterqueue_group_enable=enabled)
        await change(at.client, GROUP, topic, errors_deadletterqueue_topic_name=queue, **options)
        yield at, queue


async def fail(cluster: BehaviourCluster, topic: str) -> None:
    """Reject the first record, and release the others until the delivery limit ends them."""
    async with ShareConsumer(topic, bootstrap_servers=cluster.bootstrap_servers, group_id=topic) as jobs:
        seen: set[tuple[int, int]] = set()
        while not {(1, 2), (2, 2)} <= seen:
            record = await asyncio.wait_for(anext(jobs), LONG_TIMEOUT)
            seen.add((record.offset, record.delivery_count))
            (jobs.reject if record.offset == 0 else jobs.release)(record)
        assert all(each.ok for each in await jobs.commit())


async def read(cluster: BehaviourCluster, queue: str, count: int) -> list[Record]:
    consumer = Consumer(queue, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest")
    async with consumer:
        records = [await asyncio.wait_for(anext(consumer), LONG_TIMEOUT) for _ in range(count)]
        assert not await consumer.poll(200), "no more"
    return sorted(records, key=lambda record: int(dict(record.headers)["__dlq.errors.offset"] or b""))


def headers(topic: str, offset: int, count: int, message: bytes) -> tuple[tuple[str, bytes], ...]:
    return (
        ("__dlq.errors.topic", topic.encode()),
        ("__dlq.errors.partition", b"0"),
        ("__dlq.errors.offset", b"%d" % offset),
        ("__dlq.errors.group", topic.encode()),
        ("__dlq.errors.delivery.count", b"%d" % count),
        ("__dlq.errors.message", message),
    )


async def produce(cluster: BehaviourCluster, topic: str) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(3):
            await producer.send(topic, b"v%d" % number, key=b"k", headers=[("own", b"1")], partition=0)


@pytest.mark.parametrize("copied", [False, True])
async def test_records_that_are_given_up_are_written_to_the_dead_letter_topic(
    cluster: BehaviourCluster, topic: str, copied: bool
) -> None:
    options: dict[str, Any] = {"errors_deadletterqueue_copy_record_enable": "true"} if copied else {}
    async with dead_letters(cluster, topic, **options) as (_, queue):
        await produce(cluster, topic)
        await fail(cluster, topic)
        records = await read(cluster, queue, 3)
    assert [record.headers for record in records] == [
        headers(topic, 0, 1, REJECTED),
        headers(topic, 1, 2, TOO_OFTEN),
        headers(topic, 2, 2, TOO_OFTEN),
    ]
    expected: list[Any] = [(b"k", b"v0"), (b"k", b"v1"), (b"k", b"v2")] if copied else [(None, None)] * 3
    assert [(record.key, record.value) for record in records] == expected


async def test_gaps_and_accepted_records_are_not_dead_letters(cluster: BehaviourCluster, topic: str) -> None:
    async with dead_letters(cluster, topic) as (at, queue):
        await at.produce(4)
        async with at.member() as one:
            assert await one.acquire() == dict.fromkeys(range(4), 1)
            assert await one.acknowledge_error((0, 3, [0, 1, 3, 2])) is ErrorCode.NONE
        (record,) = await read(cluster, queue, 1)
    assert record.headers == headers(topic, 2, 1, REJECTED)


async def test_a_record_whose_last_lock_expires_is_a_dead_letter(cluster: BehaviourCluster, topic: str) -> None:
    async with dead_letters(cluster, topic) as (at, queue):
        await at.configure(record_lock_duration_ms="1000")
        await at.produce(1)
        async with at.member() as one:
            assert await one.acquire() == {0: 1}
            assert await one.acquire() == {0: 2}
            (record,) = await read(cluster, queue, 1)
    assert record.headers == headers(topic, 0, 2, TOO_OFTEN)


async def test_the_partition_of_a_dead_letter_follows_from_its_own(cluster: BehaviourCluster, topic: str) -> None:
    queue = f"dlq.{topic}"
    async with share_harness(cluster, topic, partitions=3) as at:
        await cluster.create_topic(queue, partitions=2)
        await change(at.client, TOPIC, queue, errors_deadletterqueue_group_enable="true")
        await change(at.client, GROUP, topic, errors_deadletterqueue_topic_name=queue)
        for partition in range(3):
            await at.produce(1, partition=partition)
        async with ShareConsumer(topic, bootstrap_servers=cluster.bootstrap_servers, group_id=topic) as jobs:
            for _ in range(3):
                jobs.reject(await asyncio.wait_for(anext(jobs), LONG_TIMEOUT))
            await jobs.commit()
        consumer = Consumer(queue, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest")
        async with consumer:
            records = [await asyncio.wait_for(anext(consumer), LONG_TIMEOUT) for _ in range(3)]
    origins = {(dict(record.headers)["__dlq.errors.partition"], record.partition) for record in records}
    assert origins == {(b"0", 0), (b"1", 1), (b"2", 0)}


async def test_a_topic_that_is_not_enabled_gets_no_dead_letters(cluster: BehaviourCluster, topic: str) -> None:
    """The broker archives the record nevertheless."""
    async with dead_letters(cluster, topic, enabled="false") as (_, queue):
        await produce(cluster, topic)
        await fail(cluster, topic)
        assert await read(cluster, queue, 0) == []
        async with ShareConsumer(topic, bootstrap_servers=cluster.bootstrap_servers, group_id=topic) as jobs:
            assert not await jobs.poll(300)


@pytest.mark.parametrize("name", ["__dlq", "dlq.fine", ""])
async def test_internal_names_are_refused(cluster: BehaviourCluster, topic: str, name: str) -> None:
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        code = await change(client, GROUP, topic, errors_deadletterqueue_topic_name=name)
    assert code is (ErrorCode.INVALID_CONFIG if name.startswith("__") else ErrorCode.NONE)
