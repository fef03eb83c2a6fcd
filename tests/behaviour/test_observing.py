"""What clients report about themselves, on both kinds of cluster."""

from __future__ import annotations

import asyncio
import secrets

from aiokproto import Client, Consumer, Producer, TopicPartition
from aiokproto.cluster.telemetry import TelemetryReporter
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokproto.codec.messages.list_config_resources import ListConfigResourcesRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.hooks import BatchWritten, Committed, Rebalanced, RecordsDelivered, RequestSent, ResponseReceived
from aiokproto.observe.metrics import MetricSource
from tests.clusters import BehaviourCluster
from tests.observe.recording import Recording
from tests.patience import PATIENCE

SET, DELETE = 0, 1
CLIENT_METRICS = 16


async def test_hooks_statistics_and_health_agree(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    hooks, servers = Recording(), cluster.bootstrap_servers
    async with Producer(bootstrap_servers=servers, hooks=hooks, compression_type="lz4") as producer:
        await producer.send_many(topic, [b"x" * 100] * 500)
        stats = producer.stats()
        assert str(producer.health()) == "ok"
    written = hooks.of(BatchWritten)
    assert sum(event.records for event in written) == stats.records_written == 500
    assert sum(event.size for event in written) == stats.bytes_written < 50_000
    assert sum(event.uncompressed_size for event in written) > 50_000
    consumer = Consumer(
        topic, bootstrap_servers=servers, group_id=f"g-{topic}", auto_offset_reset="earliest", hooks=hooks
    )
    async with consumer:
        for _ in range(500):
            await asyncio.wait_for(anext(consumer), PATIENCE)
        await consumer.commit()
        seen = consumer.stats()
        assert str(consumer.health()) == "ok"
        assert consumer.lags() == {TopicPartition(topic, 0): 0}
    assert seen.records_delivered == sum(event.records for event in hooks.of(RecordsDelivered)) == 500
    assert (seen.generation, seen.commit_latency.count) == (1, 1)
    assert hooks.of(Committed)[0].error is None
    assert [event.kind for event in hooks.of(Rebalanced)] == ["assigned", "revoked"]
    # Each request has its response, or the error with which the connection was closed.
    assert len(hooks.of(RequestSent)) == len(hooks.of(ResponseReceived))


async def test_client_metrics_are_configured_as_resources(cluster: BehaviourCluster) -> None:
    name = f"metrics-{secrets.token_hex(4)}"

    async def alter(operation: int, **options: str) -> int:
        configs = [
            AlterableConfig(name=key.replace("_", "."), config_operation=operation, value=value)
            for key, value in options.items()
        ]
        resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=configs)
        response = await client.request(IncrementalAlterConfigsRequest(resources=[resource]))
        return response.responses[0].error_code

    async def listed() -> bool:
        response = await client.request(ListConfigResourcesRequest(resource_types=[CLIENT_METRICS]))
        return name in {resource.resource_name for resource in response.config_resources}

    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client, asyncio.timeout(PATIENCE):
        assert await alter(SET, metrics="org.apache.kafka.producer.", interval_ms="60000") == 0
        while not await listed():
            await asyncio.sleep(0)
        described = await client.request(
            DescribeConfigsRequest(
                resources=[
                    DescribeConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configuration_keys=None)
                ]
            )
        )
        values = {each.name: (each.value, each.config_source) for each in described.results[0].configs}
        assert values["interval.ms"] == ("60000", 7)
        assert values["metrics"] == ("org.apache.kafka.producer.", 7)
        assert values["match"][0] == ""
        assert await alter(SET, interval_ms="99") == ErrorCode.INVALID_REQUEST
        assert await alter(SET, interval_ms="3600001") == ErrorCode.INVALID_REQUEST
        assert await alter(SET, match="color=red") == ErrorCode.INVALID_CONFIG
        assert await alter(DELETE, metrics="", interval_ms="") == 0
        while await listed():
            await asyncio.sleep(0)


async def test_without_a_subscription_a_client_pushes_nothing_and_works(cluster: BehaviourCluster, topic: str) -> None:
    """Kafka without a plug-in that receives metrics does not have the API at all."""
    await cluster.create_topic(topic)
    hooks = Recording()
    async with Client(bootstrap_servers=cluster.bootstrap_servers, hooks=hooks, enable_metrics_push=False) as client:
        reporter = TelemetryReporter(
            client._cluster, MetricSource("admin.client", client._cluster.observer), first_after=0
        )
        reporter.start()
        assert reporter._task is not None
        if cluster.kind == "kafka":
            await asyncio.wait_for(reporter._task, PATIENCE)
        else:
            async with asyncio.timeout(PATIENCE):
                while not reporter.client_instance_id:
                    await asyncio.sleep(0)
        await reporter.close(1.0)
        assert topic in await client.metadata([topic])
    assert "PushTelemetry" not in {event.api for event in hooks.of(RequestSent)}
