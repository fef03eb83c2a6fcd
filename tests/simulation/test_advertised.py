"""Bootstrap addresses of a cluster whose advertised addresses lead nowhere."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiokproto import Client, Consumer, Producer, ShareConsumer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.errors import DeadlineError
from aiokproto.observe.health import HealthStatus
from aiokproto.simulation import Simulation
from tests.simulation.environment import until

ADVERTISED = "10.9.9.9"


def run(program: Callable[[Cluster, str], Awaitable[None]], brokers: int = 1, advertised: str = ADVERTISED) -> None:
    """Run a program with a cluster that advertises another host than its bootstrap addresses have."""

    async def main() -> None:
        async with Cluster(brokers, advertised_host=advertised) as cluster:
            await cluster.create_topic("t", 1)
            servers = cluster.bootstrap_servers.replace(advertised, "127.0.0.1")
            await program(cluster, servers)

    Simulation(1).run(main())


def names_it(text: str, servers: str) -> bool:
    port = servers.rpartition(":")[2]
    return "advertised.listeners" in text and f"127.0.0.1:{port}" in text and f"{ADVERTISED}:{port}" in text


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_that_cannot_reach_its_coordinator_names_the_advertised_address(
    protocol: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def program(cluster: Cluster, servers: str) -> None:
        async with Consumer("t", bootstrap_servers=servers, group_id="g", group_protocol=protocol) as consumer:
            assert await consumer.poll(12_000) == []
            warnings = [each.getMessage() for each in caplog.records if each.name == "aiokproto.consumer"]
            assert any("no record in" in each and names_it(each, servers) for each in warnings), warnings
            health = consumer.health()
            assert not health.ready
            assert names_it(str(health), servers)

    with caplog.at_level(logging.WARNING):
        run(program)


def test_a_share_consumer_names_it_too(caplog: pytest.LogCaptureFixture) -> None:
    async def program(cluster: Cluster, servers: str) -> None:
        async with ShareConsumer("t", bootstrap_servers=servers, group_id="g") as consumer:
            assert await consumer.poll(12_000) == []
            warnings = [each.getMessage() for each in caplog.records if each.name == "aiokproto.share"]
            assert any(names_it(each, servers) for each in warnings), warnings
            assert not consumer.health().ready

    with caplog.at_level(logging.WARNING):
        run(program)


def test_a_producer_that_reaches_no_broker_is_not_ready() -> None:
    async def program(cluster: Cluster, servers: str) -> None:
        producer = Producer(bootstrap_servers=servers, delivery_timeout_ms=5000)
        async with producer:
            with pytest.raises(DeadlineError, match=r"advertised\.listeners"):
                await producer.send("t", b"x")
            assert producer.health().status is HealthStatus.FAILED
            assert names_it(str(producer.health()), servers)

    run(program)


@pytest.mark.parametrize("kind", [Client, Producer, Consumer])
def test_a_client_that_is_not_used_finds_out_that_it_reaches_no_broker(kind: Any) -> None:
    async def program(cluster: Cluster, servers: str) -> None:
        async with kind(bootstrap_servers=servers, enable_metrics_push=False) as client:
            assert client.health().status is HealthStatus.OK
            await until(lambda: client.health().status is HealthStatus.FAILED, 15)
            assert names_it(str(client.health()), servers)

    run(program)


def test_a_client_that_is_not_used_finds_out_that_it_reaches_brokers_again() -> None:
    async def program(cluster: Cluster, servers: str) -> None:
        leads: list[str] = [ADVERTISED]

        def mapped(host: str, port: int) -> tuple[str, int]:
            return (leads[-1] if host == "localhost" else host), port

        async with Producer(bootstrap_servers=servers, address_map=mapped, enable_metrics_push=False) as producer:
            await until(lambda: not producer.health().ready, 15)
            leads.append("127.0.0.1")
            await until(lambda: producer.health().status is HealthStatus.OK, 15)

    run(program, advertised="localhost")


def test_a_client_that_is_not_used_requests_no_metadata_once_it_has_reached_a_broker() -> None:
    async def program(cluster: Cluster, servers: str) -> None:
        for advertised in (servers, servers.replace("127.0.0.1", "localhost")):
            async with Producer(bootstrap_servers=advertised, enable_metrics_push=False):
                await asyncio.sleep(5)
                with cluster.faults.watch(MetadataRequest) as rule:
                    await asyncio.sleep(100)
                    assert not rule.count

    run(program, advertised="localhost")


def test_a_broker_that_was_reached_before_has_no_wrong_address() -> None:
    async def program(cluster: Cluster, servers: str) -> None:
        async with Consumer("t", bootstrap_servers=servers, group_id="g") as consumer:
            await until(consumer.assignment)
            assert consumer.health().status is HealthStatus.OK
            await cluster.stop_broker(0)
            await until(lambda: not consumer.health().ready)
            assert "advertised.listeners" not in str(consumer.health())
            await cluster.start_broker(0)
            await until(lambda: consumer.health().status is HealthStatus.OK, 120)

    run(program, advertised="127.0.0.1")


def test_one_broker_that_cannot_be_reached_leaves_a_client_ready() -> None:
    async def program(cluster: Cluster, servers: str) -> None:
        async with Consumer("t", bootstrap_servers=servers) as consumer:
            await asyncio.sleep(1)
            await cluster.stop_broker(2)
            await asyncio.sleep(30)
            assert consumer.health().ready

    run(program, brokers=3, advertised="127.0.0.1")
