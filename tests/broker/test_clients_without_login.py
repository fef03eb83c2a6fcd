"""What clients that have not logged in can cost a broker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokproto.broker import Broker, Security
from aiokproto.broker.server import listener
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.codec.messages.sasl_handshake import SaslHandshakeRequest
from tests.broker.secure import USERS, authenticate, plain
from tests.broker.wire import connect
from tests.net.waiting import until

SECURITY = Security("SASL_PLAINTEXT", users=USERS)


def closed(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if " clos" in record.getMessage()]


async def test_what_a_client_sends_is_logged_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    mechanism = "\r\nbroker 0 is fine\x1b[2J" + "x" * 20_000
    async with Broker(security=SECURITY) as broker, connect(broker) as wire:
        await wire.ask(SaslHandshakeRequest(mechanism=mechanism))
        assert await wire.closed()
    (line,) = closed(caplog)
    assert line.isprintable()
    assert len(line) < 700


async def test_clients_without_a_login_share_a_limit_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The frames are announced and never sent. A client that logs in meanwhile doesn't wait for them."""
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
        await until(lambda: memory._used == 0 and not memory._waiting)


class Decoded:
    """Counts the bytes of bodies that were decoded."""

    size = 0


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> Decoded:
    found, decode = Decoded(), MetadataRequest.decode_from.__func__  # type: ignore[attr-defined]

    def recorded(kind: Any, /, data: Any, position: int, version: int, **options: Any) -> Any:
        found.size += len(data)
        return decode(kind, data, position, version, **options)

    monkeypatch.setattr(MetadataRequest, "decode_from", classmethod(recorded))
    return found


@pytest.mark.parametrize(("names", "answered"), [(10, True), (20_000, False)])
async def test_a_long_request_in_place_of_a_login_is_not_decoded(
    decoded: Decoded, caplog: pytest.LogCaptureFixture, names: int, answered: bool
) -> None:
    """A short request gets the same answer as in Kafka before the connection is closed."""
    async with Broker(security=SECURITY) as broker, connect(broker) as wire:
        await wire.ask(SaslHandshakeRequest(mechanism="PLAIN"))
        wire.send(MetadataRequest(topics=[MetadataRequestTopic(name=f"t{number}") for number in range(names)]), 9)
        if answered:
            await wire.frame()
        assert await wire.closed()
    assert (0 < decoded.size < 1000) == answered
    assert decoded.size < 1000
    (line,) = closed(caplog)
    assert "Metadata was received during SASL authentication" in line
