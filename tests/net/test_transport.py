"""Connecting: every address of a name is tried, and each failure is reported with its address."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.schema import Request
from aiokproto.errors import BrokerConnectionError
from aiokproto.net.open import open_connection
from tests.net.peer import Answer, config, connected, peer, serves
from tests.net.waiting import held_port
from tests.patience import PATIENCE

ANSWERS: dict[type[Request[Any]], Answer] = {ApiVersionsRequest: serves()}


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


async def test_every_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The listener is on 127.0.0.1 alone; 127.0.0.2 refuses."""
    async with peer(ANSWERS) as broker:
        resolve_to(monkeypatch, "127.0.0.2", "127.0.0.1")
        line = await open_connection("a.name", broker.port, "broker 1", config(), PATIENCE)
        line.abort()
        await line.wait_closed()
        assert broker.connections == 1


async def test_the_error_lists_the_failure_of_each_address(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, "127.0.0.2", "127.0.0.1")
    refused = "127.0.0.2: connection refused; 127.0.0.1: connection refused"
    with held_port() as port, pytest.raises(BrokerConnectionError, match=f"cannot connect to broker 1: {refused}"):
        await open_connection("a.name", port, "broker 1", config(), PATIENCE)


async def test_a_name_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(BrokerConnectionError, match=r"'no\.such' cannot be resolved: .*not known"):
        await open_connection("no.such", 9092, "no.such:9092", config(), PATIENCE)


async def test_an_invalid_host_name() -> None:
    """The standard library reports it with a different exception."""
    with pytest.raises(BrokerConnectionError, match="cannot be resolved"):
        await open_connection("a" * 64 + ".x", 9092, "x", config(), PATIENCE)


async def test_addresses_can_be_mapped() -> None:
    async with peer(ANSWERS) as broker:
        mapped = config(address_map=lambda host, port: ("127.0.0.1", broker.port))
        line = await open_connection("inside.cluster", 9092, "broker 1", mapped, PATIENCE)
        line.abort()
        await line.wait_closed()


async def test_an_address_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch)
    async with peer(ANSWERS) as broker:
        line = await open_connection("127.0.0.1", broker.port, "broker 1", config(), PATIENCE)
        line.abort()
        await line.wait_closed()


async def test_connections_are_kept_alive() -> None:
    """A connection that a firewall dropped is noticed before the next request times out on it."""
    async with peer(ANSWERS) as broker, connected(broker.port) as line:
        assert line._transport is not None
        opened = line._transport.get_extra_info("socket")
        assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
