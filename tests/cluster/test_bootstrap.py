"""Bootstrapping from addresses of which some are dead, silent, not Kafka, or not up yet."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import pytest

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.codec.schema import Request
from aiokproto.errors import BootstrapError, ClientClosedError, NotKafkaError
from tests.cluster.fake import brokers, started
from tests.net.peer import Answer, config, peer, raw_peer, serves
from tests.net.waiting import held_port, until
from tests.patience import PATIENCE

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(100)
    writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    await writer.drain()


async def test_one_dead_and_one_live_address() -> None:
    with held_port() as dead:
        async with brokers() as (_, (broker,)), started(dead, broker.port) as cluster:
            assert list(cluster.snapshot.brokers) == [1]
            assert (await cluster.send(BEAT, 1)).error_code == 0


async def test_a_silent_address_is_passed_over() -> None:
    """The silent one is tried first; if the other is late too, both are tried again."""

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with brokers() as (_, (broker,)), raw_peer(mute) as silent:
        servers = (("127.0.0.1", silent), ("127.0.0.1", broker.port))
        cluster = ClusterClient(config(bootstrap_servers=servers, request_timeout=0.2))
        try:
            await cluster.start(timeout=PATIENCE)
            assert list(cluster.snapshot.brokers) == [1]
        finally:
            await cluster.close()


async def test_no_address_can_be_used() -> None:
    """The error names each address with its failure; the client cannot be used, and leaves no task or socket behind."""
    with held_port() as dead:
        async with raw_peer(http) as web:
            cluster = ClusterClient(config(bootstrap_servers=(("127.0.0.1", dead), ("127.0.0.1", web))))
            with pytest.raises(BootstrapError) as caught:
                await cluster.start()
        assert f"127.0.0.1:{dead}: cannot connect to 127.0.0.1:{dead}" in str(caught.value)
        assert "connection refused" in str(caught.value)
        assert f"127.0.0.1:{web} does not speak Kafka: it responds like an HTTP server" in str(caught.value)
        with pytest.raises(ClientClosedError):
            await cluster.send(BEAT, 1)


async def test_an_address_that_is_not_kafka_is_reported_at_once() -> None:
    async with raw_peer(http) as web:
        cluster = ClusterClient(config(bootstrap_servers=(("127.0.0.1", web),), bootstrap_timeout=1000))
        with pytest.raises(NotKafkaError, match=r"HTTP/1\.1 400"):
            await cluster.start()


async def test_a_broker_that_is_still_starting_is_waited_for() -> None:
    with held_port() as port:
        cluster = ClusterClient(config(bootstrap_servers=(("127.0.0.1", port),), bootstrap_timeout=1000))
        starting = asyncio.ensure_future(cluster.start())
        try:
            await until(lambda: cluster.pool.by_preference() == [-1] and bool(cluster.pool._dial_states))
            async with brokers() as (fake, (broker,)), peer(fake.answers(), port):
                await starting
                assert cluster.snapshot.brokers[1].port == broker.port
                await cluster.close()
        finally:
            await cluster.close()


async def test_metadata_without_brokers_is_ignored() -> None:
    async with brokers() as (fake, (broker,)):
        fake.brokers = {}
        with pytest.raises(BootstrapError, match="lists no brokers"):
            async with started(broker.port):
                pass


async def test_while_an_old_broker_lists_none_its_bootstrap_address_is_asked_for_coordinators() -> None:
    """0.8 lists no brokers until the first topic exists (version 0 of Metadata)."""
    answers: dict[type[Request[Any]], Answer] = {
        ApiVersionsRequest: serves(Metadata=(0, 0), FindCoordinator=(0, 0), Heartbeat=(0, 0))
    }
    async with brokers(more=answers) as (fake, (broker,)):
        fake.brokers, listed = {}, fake.brokers
        async with started(broker.port) as cluster:
            assert not cluster.snapshot.brokers
            assert cluster.pool.by_preference()[0] == -1
            fake.brokers, fake.coordinators = listed, {"g": 1}
            assert (await cluster.request(BEAT)).error_code == 0


async def test_no_common_version() -> None:
    async with peer({ApiVersionsRequest: serves(Metadata=(50, 60))}) as broker:
        with pytest.raises(BootstrapError, match=r"Metadata: .* supports versions 50-60, this client supports 0-13"):
            async with started(broker.port):
                pass


async def test_bootstrap_addresses_by_their_canonical_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """An alias of three addresses becomes two names; an address without a name stands for itself (KIP-235)."""
    names = {"10.0.0.1": "b1.kafka", "10.0.0.2": "b1.kafka", "10.0.0.3": "10.0.0.3"}

    def getaddrinfo(host: str, port: int, **_: object) -> list[Any]:
        if host != "alias":
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in names]

    def getnameinfo(sockaddr: tuple[Any, ...], flags: int) -> tuple[str, str]:
        return names[sockaddr[0]], str(sockaddr[1])

    def refuse(host: str, port: int) -> tuple[str, int]:
        asked.append((host, port))
        raise OSError("not here")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket, "getnameinfo", getnameinfo)
    for canonical, expected in ((True, {"b1.kafka", "10.0.0.3", "unknown"}), (False, {"alias", "unknown"})):
        asked: list[tuple[str, int]] = []
        servers = (("alias", 9092), ("unknown", 9092))
        cluster = ClusterClient(config(bootstrap_servers=servers, canonical_bootstrap=canonical, address_map=refuse))
        with pytest.raises(BootstrapError):
            await cluster.start()
        assert {host for host, _ in asked} == expected
