"""The log lines of a broker about connections that it closes, in virtual time."""

from __future__ import annotations

import asyncio
import logging

import pytest

from aiokproto.broker import Cluster, Security
from aiokproto.broker.server.socket_server import MAX_LOGGED, WINDOW
from aiokproto.simulation import Simulation

SECURITY = Security("SASL_PLAINTEXT", users={"alice": "secret"})


def closed(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if " close" in record.getMessage()]


async def fail(servers: str, times: int, text: bytes = b"noise") -> None:
    host, _, port = servers.rpartition(":")
    for _ in range(times):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(len(text).to_bytes(4, "big") + text)
        assert await reader.read() == b""
        writer.close()


def test_refused_connections_do_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Connections that aren't logged are counted, and later ones are logged again."""

    async def main() -> None:
        async with Cluster(1, security=SECURITY) as cluster:
            await fail(cluster.bootstrap_servers, 50)
            assert len(closed(caplog)) == MAX_LOGGED
            await asyncio.sleep(WINDOW + 1)
            assert closed(caplog)[MAX_LOGGED:] == [
                f"broker 0 closed {50 - MAX_LOGGED} more connections within {WINDOW:g} s"
            ]
            await fail(cluster.bootstrap_servers, 1)
            assert len(closed(caplog)) == MAX_LOGGED + 2
            await asyncio.sleep(WINDOW + 1)
            assert len(closed(caplog)) == MAX_LOGGED + 2
            await fail(cluster.bootstrap_servers, MAX_LOGGED + 1)
        # The number of connections that weren't logged is logged at the end.
        assert closed(caplog)[-1] == f"broker 0 closed 1 more connection within {WINDOW:g} s"

    with caplog.at_level(logging.WARNING, "aiokproto.broker"):
        Simulation(1).run(main())
