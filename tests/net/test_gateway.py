"""Three brokers behind one address, where a gateway chooses the broker by the server name (SNI)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trustme

from aiokproto import Consumer, Producer
from aiokproto.broker import Cluster, Security
from aiokproto.errors import AuthenticationError, KafkaError
from tests.net.gateway import Gateway, gateway
from tests.net.proxies import proxy


class Behind(NamedTuple):
    """A cluster, the gateway before it, and a client's options."""

    cluster: Cluster
    gateway: Gateway
    names: dict[int, str]
    options: dict[str, Any]


@pytest.fixture
async def behind(tmp_path: Path) -> AsyncIterator[Behind]:
    """Each broker's certificate has one name for all brokers, as a certificate for a gateway's domain does."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    authority.issue_cert("*.kafka.example").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "both.pem"))
    config = {"ssl.keystore.location": str(tmp_path / "both.pem")}
    async with Cluster(brokers=3, security=Security("SSL"), config=config) as cluster:
        await cluster.create_topic("t", partitions=6, replication=1)
        ports = [int(each.rpartition(":")[2]) for each in cluster.bootstrap_servers.split(",")]
        names = {port: f"b{index}.kafka.example" for index, port in enumerate(ports)}
        async with gateway({name: port for port, name in names.items()}) as way:
            options = {
                "bootstrap_servers": cluster.bootstrap_servers,
                "security_protocol": "SSL",
                "ssl_cafile": tmp_path / "ca.pem",
                "ssl_server_hostname": lambda host, port: names[port],
                "address_map": lambda host, port: ("127.0.0.1", way.port),
                "linger_ms": 0,
            }
            yield Behind(cluster, way, names, options)


async def round_trip(options: dict[str, Any]) -> None:
    """Write to all partitions, and read them in a group."""
    async with Producer(**options) as producer:
        await asyncio.gather(*(producer.send("t", b"%d" % index, partition=index) for index in range(6)))
    reading = {name: value for name, value in options.items() if name != "linger_ms"}
    async with Consumer("t", **reading, group_id="g", auto_offset_reset="earliest") as consumer:
        assert {(await anext(consumer)).value for _ in range(6)} == {b"%d" % index for index in range(6)}


async def test_each_broker_is_reached_by_its_name(behind: Behind) -> None:
    await round_trip(behind.options)
    assert set(behind.gateway.asked) == set(behind.names.values())


async def test_names_go_through_a_proxy_too(behind: Behind) -> None:
    async with proxy("http") as way:
        await round_trip({**behind.options, "proxy_url": f"http://127.0.0.1:{way.port}"})
        assert set(way.asked) == {("127.0.0.1", behind.gateway.port)}
    assert set(behind.gateway.asked) == set(behind.names.values())


async def test_a_gateway_that_mixes_up_the_brokers_gets_no_records(behind: Behind) -> None:
    """The certificate is right for each broker, so only KIP-1242 shows the mistake."""
    names = list(behind.names.values())
    ports = [behind.gateway.routes[name] for name in names]
    behind.gateway.routes = dict(zip(names, [*ports[1:], ports[0]], strict=True))
    options = {**behind.options, "delivery_timeout_ms": 5000, "request_timeout_ms": 1000}
    async with Producer(**options) as producer:
        with pytest.raises(KafkaError, match="does not lead to broker"):
            await producer.send("t", b"lost", partition=0)
    assert [behind.cluster.partition("t", index).end_offset for index in range(6)] == [0] * 6


async def test_a_name_that_the_certificate_does_not_have(behind: Behind) -> None:
    behind.gateway.routes["kafka.example"] = next(iter(behind.gateway.routes.values()))
    options = {**behind.options, "ssl_server_hostname": "kafka.example"}
    with pytest.raises(AuthenticationError, match=r"certificate is not valid for 'kafka\.example'"):
        async with Producer(**options):
            pass
