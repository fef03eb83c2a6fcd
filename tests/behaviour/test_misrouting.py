"""Addresses that lead to another broker, or to another cluster (KIP-1242)."""

from __future__ import annotations

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Broker
from aiokproto.errors import KafkaError, MisroutedConnectionError
from aiokproto.hooks import ConnectionFailed, Hooks
from tests.clusters import BehaviourCluster


class Failures(Hooks):
    """Keeps why brokers could not be reached."""

    def __init__(self) -> None:
        self.errors: list[KafkaError] = []

    def on_connection_failed(self, event: ConnectionFailed) -> None:
        self.errors.append(event.error)


@pytest.mark.parametrize("checked", [True, False])
async def test_addresses_that_lead_to_other_brokers(cluster3: BehaviourCluster, topic: str, checked: bool) -> None:
    """Two port forwards were exchanged. The client sends no request to the wrong broker."""
    await cluster3.create_topic(topic, 1)
    ports = [int(each.rpartition(":")[2]) for each in cluster3.bootstrap_servers.split(",")]
    exchanged = dict(zip(ports, [*ports[1:], ports[0]], strict=True))
    hooks = Failures()
    async with Producer(
        bootstrap_servers=cluster3.bootstrap_servers,
        address_map=lambda host, port: (host, exchanged[port]),
        metadata_cluster_check_enable=checked,
        hooks=hooks,
        delivery_timeout_ms=5000,
        request_timeout_ms=2000,
        linger_ms=0,
    ) as producer:
        with pytest.raises(KafkaError) as raised:
            await producer.send(topic, b"1")
    assert any(isinstance(error, MisroutedConnectionError) for error in hooks.errors) is checked
    if checked:
        assert "does not lead to broker" in str(raised.value)
        assert "check advertised.listeners, address_map" in str(raised.value)
    async with Consumer(bootstrap_servers=cluster3.bootstrap_servers) as consumer:
        assert await consumer.end_offsets((topic, 0)) == {(topic, 0): 0}


async def test_a_cluster_that_has_taken_the_place_of_another_is_found_by_the_bootstrap_addresses() -> None:
    """Its broker has the address and the id of the first cluster's, so that nothing else shows the difference."""
    hooks = Failures()
    async with (
        Broker() as first,
        Producer(bootstrap_servers=first.bootstrap_servers, hooks=hooks, linger_ms=0) as producer,
    ):
        await first.create_topic("t", 1)
        assert (await producer.send("t", b"1")).offset == 0
        assert (await producer.send("t", b"2")).offset == 1
        await first.close()
        async with Broker(port=int(first.bootstrap_servers.rpartition(":")[2])) as second:
            await second.create_topic("t", 1)
            assert (await producer.send("t", b"3")).offset == 0
    assert any(isinstance(error, MisroutedConnectionError) for error in hooks.errors)
