"""Silent sockets count from when they are accepted, not from when TLS is set up or a client logs in."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aiokproto.broker import Broker, Security, VirtualClock
from aiokproto.broker.security.settings import PROTOCOLS, SecurityProtocol
from aiokproto.broker.server import listener
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from tests.broker.secure import USERS, Certificates
from tests.broker.wire import Wire, connect, connect_to
from tests.net.waiting import until

LIMIT = 5


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates(tmp_path_factory.mktemp("certificates"))


def secured(protocol: SecurityProtocol, certificates: Certificates, **config: int) -> Broker:
    security = Security(protocol, users=USERS) if protocol.startswith("SASL") else Security(protocol)
    return Broker(security=security, config={**(certificates.options() if security.tls else {}), **config})


@asynccontextmanager
async def silent(broker: Broker, number: int) -> AsyncIterator[list[asyncio.Task[bytes]]]:
    """Open ``number`` sockets. Each has a task that reads it and ends with the connection."""
    pairs = [await asyncio.open_connection(*broker.bootstrap_servers.split(":")) for _ in range(number)]
    ends = [asyncio.ensure_future(reader.read()) for reader, _ in pairs]
    try:
        yield ends
    finally:
        for _, writer in pairs:
            writer.close()
        await asyncio.wait(ends)


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_an_address_has_no_more_silent_sockets_than_connections(
    protocol: SecurityProtocol, certificates: Certificates
) -> None:
    async with (
        secured(protocol, certificates, **{"max.connections.per.ip": LIMIT}) as broker,
        silent(broker, 60) as ends,
    ):
        await until(lambda: sum(end.done() for end in ends) >= 60 - LIMIT)
        assert sum(end.done() for end in ends) == 60 - LIMIT
        assert len(broker._servers[0]._connections) == LIMIT


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_silent_sockets_that_the_client_closes_make_room(
    protocol: SecurityProtocol, certificates: Certificates
) -> None:
    config = {"max.connections.per.ip": LIMIT}
    async with secured(protocol, certificates, **config) as broker:
        async with silent(broker, LIMIT):
            pass
        await until(lambda: not broker._servers[0]._connections)
        context = certificates.context() if protocol.endswith("SSL") else None
        async with connect_to(broker.bootstrap_servers, context) as wire:
            assert (await wire.ask(ApiVersionsRequest(), 3)).error_code == 0


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
async def test_a_silent_socket_takes_one_of_all_connections(
    protocol: SecurityProtocol, certificates: Certificates
) -> None:
    """The next one waits, and TLS doesn't start."""
    context = certificates.context() if protocol == "SSL" else None

    async def versions(broker: Broker) -> int:
        async with connect_to(broker.bootstrap_servers, context) as wire:
            return (await wire.ask(ApiVersionsRequest(), 3)).error_code

    async with secured(protocol, certificates, **{"max.connections": 1}) as broker:
        server = broker._servers[0]
        async with silent(broker, 1):
            await until(lambda: len(server._connections) == 1)
            answer = asyncio.ensure_future(versions(broker))
            await until(lambda: len(server._connections) == 2)
            (_, waiting) = server._connections.values()
            for _ in range(100):
                await asyncio.sleep(0)
            assert waiting.transport is None or not waiting._reading
            assert not answer.done()
        assert await answer == 0


@pytest.mark.parametrize("protocol", PROTOCOLS)
async def test_clients_that_go_while_they_wait_for_a_connection_are_forgotten(
    protocol: SecurityProtocol,
    certificates: Certificates,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With TLS, the socket that is served doesn't end its handshake."""
    config = {"max.connections": 1, "max.connections.per.ip": 3}
    context = certificates.context() if protocol.endswith("SSL") else None
    async with secured(protocol, certificates, **config) as broker:
        server = broker._servers[0]
        async with silent(broker, 1):
            await until(lambda: len(server._connections) == 1)
            with monkeypatch.context() as patch:
                patch.setattr(listener, "SLOT_SECONDS", 0.05)
                async with silent(broker, 2):
                    await until(lambda: len(server._connections) == 3)
                await until(lambda: len(server._connections) == 1)
            assert caplog.text.count("(max.connections)") == 2
            # Its address has room for one more connection, which has time to wait.
            async with silent(broker, 1):
                await until(lambda: len(server._connections) == 2)
        async with connect_to(broker.bootstrap_servers, context) as wire:
            assert (await wire.ask(ApiVersionsRequest(), 3)).error_code == 0


async def test_sockets_that_wait_for_their_quota_count() -> None:
    """``connection_creation_rate`` keeps a socket open for a while, so that its client doesn't come back at once."""
    async with Broker(config={"max.connections.per.ip": 20}, clock=VirtualClock()) as broker:
        quotas = broker._running.security.client_quotas
        quotas.alter([("ip", "127.0.0.1")], [("connection_creation_rate", 1.0)], dry_run=False)
        async with silent(broker, 60) as ends:
            await until(lambda: sum(end.done() for end in ends) >= 40)
            assert len(broker._servers[0]._connections) == 20


async def test_a_handshake_that_does_not_end_is_ended(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "TLS_HANDSHAKE_SECONDS", 0.05)
    async with secured("SSL", certificates) as broker, silent(broker, 3) as ends:
        await asyncio.wait(ends)
        await until(lambda: not broker._servers[0]._connections)


async def test_a_broker_that_stops_ends_handshakes(certificates: Certificates) -> None:
    async with secured("SSL", certificates) as broker:
        pairs = [await asyncio.open_connection(*broker.bootstrap_servers.split(":")) for _ in range(3)]
        await until(lambda: len(broker._servers[0]._connections) == 3)
    for reader, writer in pairs:
        try:
            assert await reader.read() == b""
        except ConnectionError:
            pass
        writer.close()


async def test_a_request_may_come_with_the_end_of_the_handshake(certificates: Certificates) -> None:
    """It is large enough to fill the receive buffer before the connection's task continues."""
    async with secured("SSL", certificates) as broker:
        context = certificates.context()
        async with connect_to(broker.bootstrap_servers, context) as wire:
            wire.client_id = "x" * 30_000
            numbers = [wire.send(ApiVersionsRequest(), 3) for _ in range(10)]
            answers = [int.from_bytes((await wire.frame())[:4], "big") for _ in numbers]
        assert answers == numbers


async def test_a_client_that_does_not_speak_tls_gets_an_alert(certificates: Certificates) -> None:
    async with secured("SSL", certificates) as broker, connect(broker) as wire:
        wire.send(ApiVersionsRequest(), 3)
        assert await alert(wire) == b"\x15\x03\x03"


async def alert(wire: Wire) -> bytes:
    return (await wire.reader.readexactly(7))[:3]


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
async def test_sockets_that_wait_for_another_to_be_closed_have_a_limit(
    protocol: SecurityProtocol, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each holds a file descriptor of the broker, but not of a client that has closed it meanwhile."""
    monkeypatch.setattr(listener, "MAX_WAITING", 3)
    async with secured(protocol, certificates, **{"max.connections": 2}) as broker, silent(broker, 2) as first:
        await until(lambda: len(broker._servers[0]._connections) == 2)
        async with silent(broker, 10) as ends:
            await until(lambda: sum(end.done() for end in ends) >= 7)
            assert len(broker._servers[0]._connections) == 2 + 3
        assert not any(end.done() for end in first)
