"""A consumer that is kept from reading logs the reason; one at the end of the log does not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.list_offsets import ListOffsetsRequest
from aiokproto.simulation import Simulation

Program = Callable[[Simulation, Cluster, Consumer], Awaitable[None]]


def warnings(
    program: Program, caplog: pytest.LogCaptureFixture, group: str | None = None, brokers: int = 1
) -> list[str]:
    """What a consumer warns of while a program runs."""
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(brokers) as cluster:
            await cluster.create_topic("t", partitions=2, replication=brokers)
            async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                await producer.send("t", b"x", partition=0)
            consumer = Consumer(
                "t",
                bootstrap_servers=cluster.bootstrap_servers,
                group_id=group,
                auto_offset_reset="earliest",
                request_timeout_ms=3000,
            )
            await consumer.start()
            try:
                await program(simulation, cluster, consumer)
            finally:
                await consumer.close(1000)

    with caplog.at_level(logging.WARNING, "aiokproto.consumer"):
        simulation.run(main())
    return [record.getMessage() for record in caplog.records if "no record in" in record.getMessage()]


async def wait_in_vain(consumer: Consumer, seconds: float) -> None:
    with pytest.raises(asyncio.TimeoutError):
        await asyncio.wait_for(anext(consumer), seconds)


def test_missing_brokers_are_logged_periodically(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        await anext(consumer)
        await cluster.stop_broker(0)
        await wait_in_vain(consumer, 300)
        await cluster.start_broker(0)

    said = warnings(program, caplog)
    assert 5 <= len(said) <= 25
    assert all("2 of 2 partitions" in text for text in said)
    assert any("127.0.0.1" in text or "leader" in text for text in said)


def test_a_silent_broker_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        await anext(consumer)
        for link in simulation.network.links():
            link.silence()
        await wait_in_vain(consumer, 12)

    assert "broker 0" in warnings(program, caplog)[0]


def test_a_position_that_cannot_be_found(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        await anext(consumer)
        with cluster.faults.drop(ListOffsetsRequest, "response"):
            consumer.seek_to_beginning()
            await wait_in_vain(consumer, 12)

    assert "looking up the start position" in warnings(program, caplog)[0]


def test_a_group_that_cannot_be_joined(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        with cluster.faults.drop(FindCoordinatorRequest, "response"):
            await wait_in_vain(consumer, 12)

    said = warnings(program, caplog, group="g")
    assert said
    assert "group 'g'" in said[0]


def test_polling_in_vain_is_waiting_too(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        await anext(consumer)
        await cluster.stop_broker(0)
        for _ in range(15):
            assert await consumer.poll(1000) == []
        await cluster.start_broker(0)

    assert warnings(program, caplog)


@pytest.mark.parametrize("group", [None, "g"])
def test_a_topic_without_new_records_is_not_logged(caplog: pytest.LogCaptureFixture, group: str | None) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        await anext(consumer)
        await wait_in_vain(consumer, 200)

    assert warnings(program, caplog, group) == []


def test_a_consumer_that_is_not_polled_logs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, consumer: Consumer) -> None:
        await anext(consumer)
        await cluster.stop_broker(0)
        await asyncio.sleep(100)
        await cluster.start_broker(0)

    assert warnings(program, caplog) == []
