"""What clients report about themselves, on both kinds of cluster."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from aiokproto import Client, Consumer, Producer, TopicPartition
from aiokproto.cluster.telemetry import TelemetryReporter
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.codec.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokproto.codec.messages.list_config_resources import ListConfigResourcesRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.hooks import BatchWritten, Committed, Rebalanced, RecordsDelivered, RequestSent, ResponseReceived
from aiokproto.metrics import Metric
from aiokproto.observe.metrics import MetricSource
from aiokproto.runtime.timeouts import timeout_at
from tests.clusters import BehaviourCluster
from tests.java.compiler import PROGRAMS, compiled
from tests.kafka.cluster import KafkaCluster
from tests.observe.recording import Recording
from tests.observe.test_telemetry import names
from tests.observe.waiting import until
from tests.timeouts import LONG_TIMEOUT
from tools.setup.project import kafka_jars

SET, DELETE = 0, 1
CLIENT_METRICS = 16


async def patiently(question: Callable[[], Awaitable[bool]], response: bool) -> None:
    """Repeat the request until the response is the expected one, because the other brokers learn of a change later."""
    async with timeout_at(asyncio.get_running_loop().time() + LONG_TIMEOUT):
        while await question() is not response:
            await asyncio.sleep(0)


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
        topic,
        bootstrap_servers=servers,
        group_id=f"g-{topic}",
        auto_offset_reset="earliest",
        # There is one commit, however far the clock leaps.
        enable_auto_commit=False,
        hooks=hooks,
    )
    async with consumer:
        for _ in range(500):
            await asyncio.wait_for(anext(consumer), LONG_TIMEOUT)
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

    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        assert await alter(SET, metrics="org.apache.kafka.producer.", interval_ms="60000") == 0
        await patiently(listed, True)
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
        await patiently(listed, False)


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
            await asyncio.wait_for(reporter._task, LONG_TIMEOUT)
        else:
            await until(lambda: reporter.client_instance_id)
        await reporter.close(1.0)
        assert topic in await client.metadata([topic])
    assert "PushTelemetry" not in {event.api for event in hooks.of(RequestSent)}


class Receiving:
    """Real Kafka with a plug-in that writes what clients push into a folder."""

    def __init__(self, cluster: KafkaCluster, folder: Path) -> None:
        self.bootstrap_servers = cluster.bootstrap_servers
        self._folder = folder

    def pushes(self, *, last: bool = False) -> list[bytes]:
        """What was pushed; only by closing clients if ``last``."""
        return [path.read_bytes() for path in sorted(self._folder.glob("*-last.push" if last else "*.push"))]


@pytest.fixture(scope="module")
def receiving(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Receiving]:
    folder = tmp_path_factory.mktemp("pushes")
    classes = compiled(PROGRAMS / "telemetry" / "PushReceiver.java", sorted(kafka_jars().glob("*.jar")))
    config = {"metric.reporters": "PushReceiver", "pushes.folder": str(folder)}
    with KafkaCluster(1, config=config, classpath=[classes]) as cluster:
        yield Receiving(cluster, folder)


@pytest.mark.kafka
async def test_kafka_receives_what_a_client_pushes(receiving: Receiving) -> None:
    servers = receiving.bootstrap_servers
    configs = [
        AlterableConfig(name="metrics", config_operation=SET, value="org.apache.kafka.admin.client.,com.example."),
        AlterableConfig(name="interval.ms", config_operation=SET, value="100"),
    ]
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name="all", configs=configs)
    metrics = [Metric("com.example.open", 3, attributes={"shop": "web"})]
    options: dict[str, Any] = {"enable_metrics_push": False, "application_metrics": lambda: metrics}
    async with Client(bootstrap_servers=servers, **options) as client:
        await client.request(IncrementalAlterConfigsRequest(resources=[resource]))
        source = MetricSource("admin.client", client._cluster.observer)
        reporter = TelemetryReporter(client._cluster, source, first_after=0)
        # The subscription takes a moment to reach the broker, which until then gives an interval of minutes.
        while not await subscribed(client):
            await asyncio.sleep(0)
        reporter.start()
        await until(lambda: len(receiving.pushes()) >= 3)
        assert reporter.client_instance_id
        await reporter.close(LONG_TIMEOUT)
        await until(lambda: receiving.pushes(last=True))
    for data in receiving.pushes():
        assert "org.apache.kafka.admin.client.connection.creation.total" in names(data)
        assert all(name.startswith("org.apache.kafka.admin.client.") for name in names(data))
        assert b"com.example.open" in data


async def subscribed(client: Client) -> bool:
    """Return whether a new client instance would get a subscription."""
    response = await client.request(GetTelemetrySubscriptionsRequest(), node=1)
    return bool(response.requested_metrics)
