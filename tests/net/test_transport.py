"""Connecting: every address of a name is tried, and each failure is reported with its address."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path
from typing import Any

import pytest

from aiokproto import Client
from aiokproto.broker import Broker
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.schema import Request
from aiokproto.config import parse_addresses
from aiokproto.errors import BrokerConnectionError
from aiokproto.net.addresses import Endpoint, by_turns, canonical_names, connect
from aiokproto.net.open import open_connection
from aiokproto.security.tls.contexts import GivenContext
from tests.net.peer import Answer, Peer, config, connected, peer, serves
from tests.net.waiting import held_port, until
from tests.timeouts import LONG_TIMEOUT

ANSWERS: dict[type[Request[Any]], Answer] = {ApiVersionsRequest: serves()}


def resolve_to(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


async def test_every_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The listener is on 127.0.0.1 alone; 127.0.0.2 refuses."""
    async with peer(ANSWERS) as broker:
        resolve_to(monkeypatch, "127.0.0.2", "127.0.0.1")
        line = await open_connection("a.name", broker.port, "broker 1", config(), LONG_TIMEOUT)
        line.abort()
        await line.wait_closed()
        assert broker.connections == 1


async def test_the_error_lists_the_failure_of_each_address(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, "127.0.0.2", "127.0.0.1")
    refused = "127.0.0.2: connection refused; 127.0.0.1: connection refused"
    with held_port() as port, pytest.raises(BrokerConnectionError, match=f"cannot connect to broker 1: {refused}"):
        await open_connection("a.name", port, "broker 1", config(), LONG_TIMEOUT)


async def test_a_name_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with pytest.raises(BrokerConnectionError, match=r"'no\.such' cannot be resolved: .*not known"):
        await open_connection("no.such", 9092, "no.such:9092", config(), LONG_TIMEOUT)


async def test_an_invalid_host_name() -> None:
    """The standard library reports it with a different exception."""
    with pytest.raises(BrokerConnectionError, match="cannot be resolved"):
        await open_connection("a" * 64 + ".x", 9092, "x", config(), LONG_TIMEOUT)


async def test_addresses_can_be_mapped() -> None:
    async with peer(ANSWERS) as broker:
        mapped = config(address_map=lambda host, port: ("127.0.0.1", broker.port))
        line = await open_connection("inside.cluster", 9092, "broker 1", mapped, LONG_TIMEOUT)
        line.abort()
        await line.wait_closed()


async def test_the_error_names_the_address_that_was_mapped_to() -> None:
    with held_port() as port:
        mapped = config(address_map=lambda _host, _port: ("127.0.0.1", port))
        text = (
            rf"^cannot connect to kafka-0:9092, by address_map at 127\.0\.0\.1:{port}: 127\.0\.0\.1: connection refused"
        )
        with pytest.raises(BrokerConnectionError, match=text):
            await open_connection("kafka-0", 9092, "kafka-0:9092", mapped, LONG_TIMEOUT)


async def test_an_address_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch)
    async with peer(ANSWERS) as broker:
        line = await open_connection("127.0.0.1", broker.port, "broker 1", config(), LONG_TIMEOUT)
        line.abort()
        await line.wait_closed()


async def test_connections_are_kept_alive() -> None:
    """A connection that a firewall dropped is noticed before the next request times out on it."""
    async with peer(ANSWERS) as broker, connected(broker.port) as line:
        assert line._transport is not None
        opened = line._transport.get_extra_info("socket")
        assert opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


async def test_packets_are_not_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """TCP_NODELAY: a small request must not wait for the acknowledgement of the last."""
    resolve_to(monkeypatch, "127.0.0.1", "127.0.0.2")
    async with peer(ANSWERS) as broker:
        for host in ("127.0.0.1", "a.name"):
            line = await open_connection(host, broker.port, "broker 1", config(), LONG_TIMEOUT)
            assert line._transport is not None
            assert line._transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            line.abort()
            await line.wait_closed()


async def test_an_address_that_swallows_packets_costs_a_quarter_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next is tried beside it (RFC 8305), and its socket is closed."""
    resolve_to(monkeypatch, "127.0.0.3", "127.0.0.1")
    pending: list[socket.socket] = []
    loop = asyncio.get_running_loop()
    connect = loop.sock_connect

    async def swallow(opened: socket.socket, address: Any) -> None:
        if address[0] != "127.0.0.3":
            await connect(opened, address)
            return
        pending.append(opened)
        await loop.create_future()

    monkeypatch.setattr(loop, "sock_connect", swallow, raising=False)
    async with peer(ANSWERS) as broker:
        line = await open_connection("a.name", broker.port, "broker 1", config(), LONG_TIMEOUT)
        assert [opened.fileno() for opened in pending] == [-1]
        line.abort()
        await line.wait_closed()


async def test_addresses_without_an_answer_are_listed_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, "127.0.0.3", "127.0.0.4")
    loop = asyncio.get_running_loop()

    async def swallow(opened: socket.socket, address: Any) -> None:
        await loop.create_future()

    monkeypatch.setattr(loop, "sock_connect", swallow, raising=False)
    with pytest.raises(BrokerConnectionError, match=r"127\.0\.0\.3: no connection in .*; 127\.0\.0\.4: no connection"):
        # It's long enough for a stalled loop to resolve the name first.
        await open_connection("a.name", 9, "broker 1", config(), 1.0)


async def test_cancelling_closes_the_sockets_of_all_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    resolve_to(monkeypatch, "127.0.0.3", "127.0.0.4")
    loop, pending = asyncio.get_running_loop(), list[socket.socket]()

    async def swallow(opened: socket.socket, address: Any) -> None:
        pending.append(opened)
        await loop.create_future()

    monkeypatch.setattr(loop, "sock_connect", swallow, raising=False)
    opening = asyncio.ensure_future(open_connection("a.name", 9, "broker 1", config(), LONG_TIMEOUT))
    await until(lambda: len(pending) == 2)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert [opened.fileno() for opened in pending] == [-1, -1]


async def test_cancelling_while_the_losers_are_closed_closes_the_winner_too(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, opened = asyncio.get_running_loop(), list[socket.socket]()
    connect_one = loop.sock_connect

    async def swallow(each: socket.socket, address: Any) -> None:
        opened.append(each)
        if address[0] == "127.0.0.3":
            try:
                await loop.create_future()
            finally:
                # The other socket has won, and this one is being closed.
                loop.call_soon(racing.cancel)
                await asyncio.sleep(0)
        await connect_one(each, address)

    monkeypatch.setattr(loop, "sock_connect", swallow, raising=False)
    monkeypatch.setattr("aiokproto.net.addresses.FALLBACK_DELAY", 0.0)
    async with peer(ANSWERS) as broker:
        both = [Endpoint(socket.AF_INET, (host, broker.port)) for host in ("127.0.0.3", "127.0.0.1")]
        racing = asyncio.ensure_future(connect(both, loop.time() + LONG_TIMEOUT, []))
        with pytest.raises(asyncio.CancelledError):
            await racing
        await until(lambda: [each.fileno() for each in opened] == [-1, -1])


async def test_an_address_whose_name_cannot_be_looked_up_stands_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client starts although no name server answers, as with Java's ``InetAddress``."""

    def getnameinfo(sockaddr: Any, flags: int) -> tuple[str, str]:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getnameinfo", getnameinfo)
    later = asyncio.get_running_loop().time() + LONG_TIMEOUT
    assert await canonical_names("127.0.0.1", 9092, later, None) == ["127.0.0.1"]


@pytest.mark.parametrize(
    ("found", "order"),
    [
        ("6a 6b 6c 4a 4b", "6a 4a 6b 4b 6c"),
        ("4a 6a 6b", "4a 6a 6b"),
        ("6a", "6a"),
    ],
)
def test_families_take_turns(found: str, order: str) -> None:
    """A host whose IPv6 addresses all lead nowhere is reached at the second attempt."""
    families = {"4": socket.AF_INET, "6": socket.AF_INET6}
    endpoints = [Endpoint(families[each[0]], (each, 1)) for each in found.split()]
    assert [endpoint.host for endpoint in by_turns(endpoints)] == order.split()


async def test_the_zone_of_an_address_reaches_the_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    """A link-local address is ambiguous without the interface. The certificate does not have it (RFC 6874)."""
    ((host, port),) = parse_addresses("bootstrap_servers", "[fe80::1%lo]:9092")
    found = [Endpoint(*entry) for entry in [(socket.AF_INET6, ("fe80::1%lo", 9092, 0, 1))]]
    seen: list[Any] = []

    def getaddrinfo(host: str, port: int, **_: Any) -> list[Any]:
        assert (host, port) == ("fe80::1%lo", 9092)
        return [(endpoint.family, socket.SOCK_STREAM, 6, "", endpoint.sockaddr) for endpoint in found]

    async def remember(opened: socket.socket, address: Any) -> None:
        seen.append(address)
        raise ConnectionRefusedError(111, "")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", remember, raising=False)
    with pytest.raises(BrokerConnectionError, match="fe80::1%lo: connection refused"):
        await open_connection(
            host, port, "broker 1", config(tls=GivenContext(ssl.create_default_context())), LONG_TIMEOUT
        )
    assert seen == [found[0].sockaddr]


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6")
async def test_a_listener_of_ipv6() -> None:
    async with peer(ANSWERS, host="::1") as broker:
        line = await open_connection("::1", broker.port, "broker 1", config(), LONG_TIMEOUT)
        line.abort()
        await line.wait_closed()
        assert broker.connections == 1


async def asynchronous(host: str, port: int) -> tuple[str, int]:
    await asyncio.sleep(0)
    return "127.0.0.1", int(host.partition(".")[0])


async def test_an_address_map_may_be_async() -> None:
    async with peer(ANSWERS) as broker:
        mapped = config(address_map=asynchronous)
        line = await open_connection(f"{broker.port}.inside", 9092, "broker 1", mapped, LONG_TIMEOUT)
        line.abort()
        await line.wait_closed()


async def cancelled(host: str, port: int) -> tuple[str, int]:
    """A function does so if it awaits a task of the application that is cancelled."""
    raise asyncio.CancelledError


async def late(host: str, port: int) -> tuple[str, int]:
    raise asyncio.TimeoutError("the resolver does not answer")


def closed_socket() -> socket.socket:
    opened = socket.socket()
    opened.close()
    return opened


@pytest.mark.parametrize(
    ("option", "function", "text"),
    [
        ("address_map", lambda host, port: 1 / 0, r"address_map\('a', 9\) raised ZeroDivisionError"),
        ("address_map", lambda host, port: "b:9", "returned 'b:9': not a host and a port"),
        ("address_map", cancelled, r"address_map\('a', 9\) raised CallbackError"),
        ("address_map", late, r"address_map\('a', 9\) raised TimeoutError: the resolver"),
        ("dialer", lambda host, port: None, "returned None: not a connected stream socket"),
        ("dialer", lambda host, port: closed_socket(), "returned <socket.*: not a connected stream socket"),
        ("dialer", asynchronous, r"dialer\('a', 9\) raised ValueError"),
    ],
)
async def test_a_failure_of_the_applications_function_is_named(option: str, function: Any, text: str) -> None:
    with pytest.raises(BrokerConnectionError, match=text):
        await open_connection("a", 9, "broker 1", config(**{option: function}), LONG_TIMEOUT)


@pytest.mark.parametrize("kind", ["unconnected", "datagrams", "tls"])
async def test_a_socket_that_a_dialer_must_not_return(kind: str) -> None:
    """Event loops refuse them with errors of their own, or only once something is written."""
    near, far = socket.socketpair()
    if kind == "unconnected":
        given = socket.socket()
    elif kind == "datagrams":
        given = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        given.connect(("127.0.0.1", 9))
    else:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        given = context.wrap_socket(near, do_handshake_on_connect=False)
    with near, far, given, pytest.raises(BrokerConnectionError, match="not a connected stream socket without TLS"):
        await open_connection("a", 9, "broker 1", config(dialer=lambda host, port: given), LONG_TIMEOUT)


async def test_a_client_outlives_an_address_map_that_is_cancelled() -> None:
    """It doesn't cancel the client's own tasks, which would end the client."""
    fails = 2

    async def moody(host: str, port: int) -> tuple[str, int]:
        nonlocal fails
        fails -= 1
        if fails >= 0:
            raise asyncio.CancelledError
        return host, port

    async with Broker() as broker, Client(bootstrap_servers=broker.bootstrap_servers, address_map=moody) as client:
        assert client.brokers
    assert fails < 0


async def test_cancelling_a_dialer_that_has_its_socket_closes_it() -> None:
    near, far = socket.socketpair()

    async def dialer(host: str, port: int) -> socket.socket:
        try:
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError:
            return near
        raise AssertionError

    with far:
        opening = asyncio.ensure_future(open_connection("a", 9, "broker 1", config(dialer=dialer), LONG_TIMEOUT))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert near.fileno() == -1


async def test_a_function_that_hangs_ends_at_the_deadline() -> None:
    async def hang(host: str, port: int) -> socket.socket:
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    with pytest.raises(BrokerConnectionError, match=r"dialer\('a', 9\) took too long"):
        await open_connection("a", 9, "broker 1", config(dialer=hang), 0.02)


async def test_a_dialer_of_the_application() -> None:
    asked: list[tuple[str, int]] = []

    async def dialer(host: str, port: int) -> socket.socket:
        asked.append((host, port))
        opened = socket.socket()
        opened.setblocking(False)
        await asyncio.get_running_loop().sock_connect(opened, ("127.0.0.1", broker.port))
        return opened

    async with peer(ANSWERS) as broker:
        line = await open_connection("kafka", 9092, "broker 1", config(dialer=dialer), LONG_TIMEOUT)
        line.abort()
        await line.wait_closed()
        assert asked == [("kafka", 9092)]


@pytest.mark.skipif(not hasattr(socket, "AF_UNIX"), reason="no Unix sockets")
async def test_a_dialer_of_a_unix_socket(tmp_path: Path) -> None:
    running = Peer(ANSWERS)
    server = await asyncio.start_unix_server(running.serve, tmp_path / "kafka")

    async def dialer(host: str, port: int) -> socket.socket:
        opened = socket.socket(socket.AF_UNIX)
        opened.connect(str(tmp_path / "kafka"))
        return opened

    try:
        line = await open_connection("kafka", 9092, "broker 1", config(dialer=dialer), LONG_TIMEOUT)
        line.abort()
        await line.wait_closed()
    finally:
        server.close()
        await running.stop()
        await server.wait_closed()
