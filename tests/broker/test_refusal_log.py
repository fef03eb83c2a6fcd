"""What a broker logs of connections that it closes, and what clients that have not logged in can cost it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from aiokproto.broker import Broker, Cluster, Security
from aiokproto.broker.server import listener
from aiokproto.broker.server.refusal_log import MOST, WINDOW
from aiokproto.codec.messages.sasl_handshake import SaslHandshakeRequest
from aiokproto.simulation import Simulation
from tests.broker.secure import USERS, authenticate, plain
from tests.broker.wire import connect
from tests.net.waiting import until

SECURITY = Security("SASL_PLAINTEXT", users=USERS)


def closed(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if " clos" in record.getMessage()]


async def fail(servers: str, times: int, text: bytes = b"noise") -> None:
    host, _, port = servers.rpartition(":")
    for _ in range(times):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(len(text).to_bytes(4, "big") + text)
        assert await reader.read() == b""
        writer.close()


def test_refused_connections_do_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """What is left out is counted; later ones are logged again."""

    async def main() -> None:
        async with Cluster(1, security=SECURITY) as cluster:
            await fail(cluster.bootstrap_servers, 50)
            assert len(closed(caplog)) == MOST
            await asyncio.sleep(WINDOW + 1)
            assert closed(caplog)[MOST:] == [f"broker 0 closed {50 - MOST} more connections within {WINDOW:g} s"]
            await fail(cluster.bootstrap_servers, 1)
            assert len(closed(caplog)) == MOST + 2
            await asyncio.sleep(WINDOW + 1)
            assert len(closed(caplog)) == MOST + 2
            await fail(cluster.bootstrap_servers, MOST + 1)
        # What was left out is logged at the end, too.
        assert closed(caplog)[-1] == f"broker 0 closed 1 more connections within {WINDOW:g} s"

    with caplog.at_level(logging.WARNING, "aiokproto.broker"):
        Simulation(1).run(main())


async def test_what_a_client_sends_is_logged_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    mechanism = "\r\nbroker 0 is fine\x1b[2J" + "x" * 20_000
    async with Broker(security=SECURITY) as broker, connect(broker) as wire:
        await wire.ask(SaslHandshakeRequest(mechanism=mechanism))
        assert await wire.closed()
    (line,) = closed(caplog)
    assert line.isprintable()
    assert len(line) < 700


async def test_clients_without_a_login_share_a_limit_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames that are announced and never sent; who logs in meanwhile does not wait for them."""
    monkeypatch.setattr(listener, "LOGIN_MEMORY", 1 << 20)
    async with Broker(security=SECURITY) as broker:
        memory = broker._servers[0]._listener._logins
        writers = []
        for _ in range(20):
            _, writer = await asyncio.open_connection(*broker.bootstrap_servers.split(":"))
            writer.write((500_000).to_bytes(4, "big") + bytes(10))
            writers.append(writer)
        await until(lambda: memory._used + 500_000 * len(memory._waiting) == 10_000_000)
        assert memory._used == 1_500_000
        async with connect(broker) as wire:
            assert (await authenticate(wire, "PLAIN", plain("alice"))).error_code == 0
        for writer in writers:
            writer.close()
        await until(lambda: memory._used == 0)
        assert not memory._waiting
