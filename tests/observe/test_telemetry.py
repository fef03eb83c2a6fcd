"""Pushing metrics to brokers (KIP-714): against the embedded broker, and what each refusal leads to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aiokproto import Broker, Client, Consumer, Producer
from aiokproto.broker import Cluster, RequestInfo, Serve
from aiokproto.cluster import telemetry
from aiokproto.codec.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokproto.codec.messages.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode
from aiokproto.metrics import Metric
from tests.observe.waiting import until

CLIENT_METRICS = 16


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Request the subscription at once."""
    start = telemetry.TelemetryReporter.__init__

    def make(self: telemetry.TelemetryReporter, *args: Any, **kwargs: Any) -> None:
        start(self, *args, **{**kwargs, "first_after": 0.0})

    monkeypatch.setattr(telemetry.TelemetryReporter, "__init__", make)


async def subscribe(broker: Cluster, name: str = "all", **options: str) -> int:
    """Set the options of a subscription; `_` in their names stands for a dot."""
    configs = [
        AlterableConfig(name=key.replace("_", "."), config_operation=0, value=value) for key, value in options.items()
    ]
    resource = AlterConfigsResource(resource_type=CLIENT_METRICS, resource_name=name, configs=configs)
    async with Client(bootstrap_servers=broker.bootstrap_servers, enable_metrics_push=False) as client:
        response = await client.request(IncrementalAlterConfigsRequest(resources=[resource]))
    return response.responses[0].error_code


def names(data: bytes) -> set[str]:
    """The metrics in a push: their names are the only texts that begin so."""
    prefix = b"org.apache.kafka."
    found = data.split(prefix)[1:]
    starts = [len(prefix) + data.index(prefix + rest) for rest in found]
    lengths = [data[start - len(prefix) - 1] for start in starts]
    return {(prefix + rest)[:length].decode() for rest, length in zip(found, lengths, strict=True)}


class Counted:
    """Counts the requests of the two APIs."""

    def __init__(self, broker: Broker) -> None:
        self.gets: list[GetTelemetrySubscriptionsRequest] = []
        self.pushes: list[PushTelemetryRequest] = []
        broker.faults.intercept(GetTelemetrySubscriptionsRequest, self._got)
        broker.faults.intercept(PushTelemetryRequest, self._pushed)
        self.answers: list[ErrorCode] = []

    async def _got(self, info: RequestInfo, serve: Serve) -> Response | None:
        assert isinstance(info.request, GetTelemetrySubscriptionsRequest)
        self.gets.append(info.request)
        return await serve(info.request)

    async def _pushed(self, info: RequestInfo, serve: Serve) -> Response | None:
        assert isinstance(info.request, PushTelemetryRequest)
        self.pushes.append(info.request)
        if self.answers:
            return PushTelemetryResponse(error_code=self.answers.pop(0))
        return await serve(info.request)


@asynccontextmanager
async def subscribed(interval: int = 100) -> AsyncIterator[tuple[Broker, Counted]]:
    async with Broker() as broker:
        await broker.create_topic("flights")
        assert await subscribe(broker, metrics="*", interval_ms=str(interval)) == 0
        yield broker, Counted(broker)


async def test_a_producer_pushes_what_is_subscribed_and_again_when_it_closes() -> None:
    async with subscribed() as (broker, counted):
        async with Producer(bootstrap_servers=broker.bootstrap_servers, client_id="p") as producer:
            await producer.send("flights", b"a")
            await until(lambda: len(broker.pushed_metrics()) >= 2)
            instance = producer.stats().client.client_instance_id
        pushes = broker.pushed_metrics()
    assert {(push.client_id, push.client_instance_id.hex()) for push in pushes} == {("p", instance)}
    assert [push.terminating for push in pushes] == [False] * (len(pushes) - 1) + [True]
    kafka = "org.apache.kafka.producer."
    assert {f"{kafka}connection.creation.total", f"{kafka}node.request.latency.avg"} <= names(pushes[0].metrics)
    # A rate needs an earlier push to refer to.
    assert [f"{kafka}connection.creation.rate" in names(push.metrics) for push in pushes[:2]] == [False, True]
    assert len(counted.gets) == 1
    assert {push.compression_type for push in counted.pushes} == {4}, "the first codec that the broker listed"


async def test_a_consumer_pushes_its_metrics_with_its_group() -> None:
    async with subscribed() as (broker, _):
        consumer = Consumer("flights", bootstrap_servers=broker.bootstrap_servers, group_id="report")
        async with consumer:
            await until(lambda: len(broker.pushed_metrics()) >= 2)
        data = broker.pushed_metrics()[-1].metrics
    assert "org.apache.kafka.consumer.coordinator.assigned.partitions" in names(data)
    assert b"group_id" in data
    assert b"report" in data


async def test_metrics_of_the_application_are_pushed_with_the_clients_own() -> None:
    metrics = [Metric("com.example.open", 3), Metric("com.other.open", 4)]
    async with Broker() as broker:
        wanted = "com.example.,org.apache.kafka.producer.connection."
        assert await subscribe(broker, metrics=wanted, interval_ms="100") == 0
        async with Producer(bootstrap_servers=broker.bootstrap_servers, application_metrics=lambda: metrics):
            await until(broker.pushed_metrics)
        data = broker.pushed_metrics()[0].metrics
    assert b"com.example.open" in data
    assert b"com.other.open" not in data
    assert "org.apache.kafka.producer.connection.creation.total" in names(data)


async def test_only_metrics_with_a_wanted_prefix_are_pushed() -> None:
    async with Broker() as broker:
        wanted = "org.apache.kafka.producer.node."
        assert await subscribe(broker, metrics=wanted, interval_ms="100") == 0
        async with Producer(bootstrap_servers=broker.bootstrap_servers):
            await until(broker.pushed_metrics)
        found = names(broker.pushed_metrics()[0].metrics)
    assert found
    assert all(name.startswith(wanted) for name in found)


async def test_clients_that_do_not_match_push_nothing() -> None:
    async with Broker() as broker:
        assert await subscribe(broker, metrics="*", interval_ms="100", match="client_id=billing-.*") == 0
        counted = Counted(broker)
        async with (
            Producer(bootstrap_servers=broker.bootstrap_servers, client_id="other"),
            Producer(bootstrap_servers=broker.bootstrap_servers, client_id="billing-1"),
        ):
            await until(lambda: len(counted.gets) >= 2 and broker.pushed_metrics())
        assert {push.client_id for push in broker.pushed_metrics()} == {"billing-1"}


async def test_without_a_subscription_nothing_is_pushed_and_closing_does_not_wait() -> None:
    async with Broker() as broker:
        counted = Counted(broker)
        async with Client(bootstrap_servers=broker.bootstrap_servers) as client:
            await until(lambda: client.stats().client_instance_id)
        assert len(counted.gets) == 1
        assert counted.pushes == []


async def test_the_option_turns_it_off() -> None:
    async with subscribed() as (broker, counted):
        async with Client(bootstrap_servers=broker.bootstrap_servers, enable_metrics_push=False) as client:
            await client.metadata()
            tasks = {task.get_name() for task in asyncio.all_tasks()}
        assert counted.gets == []
    assert "aiokproto telemetry" not in tasks


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE])
async def test_after_these_errors_the_subscription_is_requested_at_once(code: ErrorCode) -> None:
    async with subscribed() as (broker, counted):
        counted.answers = [code]
        async with Client(bootstrap_servers=broker.bootstrap_servers):
            await until(broker.pushed_metrics)
    assert len(counted.gets) >= 2
    first, second = counted.gets[:2]
    assert first.client_instance_id == bytes(16)
    assert second.client_instance_id == counted.pushes[0].client_instance_id, "the id stays"
    if code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE:
        assert counted.pushes[0].compression_type != counted.pushes[1].compression_type


@pytest.mark.parametrize("code", [ErrorCode.THROTTLING_QUOTA_EXCEEDED, ErrorCode.TELEMETRY_TOO_LARGE])
async def test_after_these_errors_it_goes_on_after_the_interval(code: ErrorCode) -> None:
    async with subscribed() as (broker, counted):
        counted.answers = [code]
        async with Client(bootstrap_servers=broker.bootstrap_servers):
            await until(broker.pushed_metrics)
    assert len(counted.gets) >= 2


@pytest.mark.parametrize("code", [ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_RECORD])
async def test_these_errors_end_the_pushing_and_nothing_else(code: ErrorCode) -> None:
    async with subscribed() as (broker, counted):
        counted.answers = [code]
        async with Client(bootstrap_servers=broker.bootstrap_servers) as client:
            await until(lambda: counted.pushes)
            await until(lambda: "aiokproto telemetry" not in {task.get_name() for task in asyncio.all_tasks()})
            assert await client.metadata()
            assert client.health().ready
        assert len(counted.pushes) == 1, "not even the last one"


async def test_a_changed_subscription_is_followed() -> None:
    async with subscribed() as (broker, counted), Client(bootstrap_servers=broker.bootstrap_servers):
        await until(broker.pushed_metrics)
        assert await subscribe(broker, "more", metrics="org.apache.kafka.consumer.", interval_ms="200") == 0
        assert await subscribe(broker, metrics="org.apache.kafka.admin.client.connection.") == 0
        await until(lambda: len(counted.gets) >= 2 and names(broker.pushed_metrics()[-1].metrics))
        await until(lambda: all("connection" in name for name in names(broker.pushed_metrics()[-1].metrics)))


async def test_a_broker_without_the_api_gets_no_request() -> None:
    async with Broker(as_version="3.6") as broker:
        counted = Counted(broker)
        async with Client(bootstrap_servers=broker.bootstrap_servers) as client:
            await until(lambda: "aiokproto telemetry" not in {task.get_name() for task in asyncio.all_tasks()})
            assert client.health().ready
        assert counted.gets == []


async def test_a_broker_that_does_not_answer_the_last_push_delays_closing_for_a_second_at_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(telemetry, "TERMINATING", 0.05)
    async with subscribed() as (broker, counted):
        client = Client(bootstrap_servers=broker.bootstrap_servers)
        async with client:
            await until(broker.pushed_metrics)
            broker.faults.drop(PushTelemetryRequest)
        assert counted.pushes
    assert client.health().ended


async def test_cancelling_the_last_push_closes_everything() -> None:
    async with subscribed() as (broker, _):
        client = Client(bootstrap_servers=broker.bootstrap_servers)
        await client.start()
        await until(broker.pushed_metrics)
        terminating: list[bool] = []

        async def swallow(info: RequestInfo, serve: Serve) -> Response | None:
            assert isinstance(info.request, PushTelemetryRequest)
            terminating.append(info.request.terminating)
            return None

        broker.faults.intercept(PushTelemetryRequest, swallow)
        closing = asyncio.create_task(client.close())
        await until(lambda: True in terminating)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert client.health().ended
        assert client.stats().connections == 0


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"interval_ms": "99"}, ErrorCode.INVALID_REQUEST),
        ({"interval_ms": "3600001"}, ErrorCode.INVALID_REQUEST),
        ({"interval_ms": "soon"}, ErrorCode.INVALID_CONFIG),
        ({"match": "color=red"}, ErrorCode.INVALID_CONFIG),
        ({"match": "client_id=("}, ErrorCode.INVALID_CONFIG),
        ({"colour": "red"}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_invalid_options_of_a_subscription_are_refused(options: dict[str, str], code: ErrorCode) -> None:
    async with Broker() as broker:
        assert await subscribe(broker, **options) == code
