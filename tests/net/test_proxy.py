"""Connections through SOCKS5 and HTTP proxies, plain and with TLS on either part of the way."""

from __future__ import annotations

import asyncio
import ssl
import sys
from pathlib import Path
from typing import Any

import pytest

from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokproto.codec.schema import Request
from aiokproto.config import ClusterConfig
from aiokproto.config.proxy import parse_proxy
from aiokproto.errors import AuthenticationError, BrokerConnectionError, KafkaError, NotKafkaError
from aiokproto.net.open import open_connection
from aiokproto.security.tls.contexts import GivenContext
from tests.net.peer import Answer, config, peer, raw_peer, serves
from tests.net.proxies import proxy
from tests.net.test_tls import CERTIFICATE, KEY, anonymous
from tests.net.waiting import held_port
from tests.security.certificates import make
from tests.timeouts import LONG_TIMEOUT

ANSWERS: dict[type[Request[Any]], Answer] = {
    ApiVersionsRequest: serves(Heartbeat=(0, 4)),
    HeartbeatRequest: lambda request, version: HeartbeatResponse(error_code=0),
}
BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
SCHEMES = ["socks5", "socks5h", "http"]


@pytest.fixture
def server(tmp_path: Path) -> ssl.SSLContext:
    (tmp_path / "both.pem").write_text(KEY + CERTIFICATE)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "both.pem")
    return context


def trusting() -> ssl.SSLContext:
    return ssl.create_default_context(cadata=CERTIFICATE)


def through(url: str, context: ssl.SSLContext | None = None, no_proxy: str = "", **changes: Any) -> ClusterConfig:
    return config(proxy=parse_proxy(url, no_proxy, context), **changes)


async def beat(host: str, port: int, options: ClusterConfig, timeout: float = LONG_TIMEOUT) -> None:
    line = await open_connection(host, port, "broker 1", options, timeout)
    try:
        assert (await line.send(BEAT, timeout=LONG_TIMEOUT)).error_code == 0
    finally:
        line.abort()
        await line.wait_closed()


@pytest.mark.parametrize("login", [None, ("me", "p@ss:w/ö")])
@pytest.mark.parametrize("scheme", SCHEMES)
async def test_requests_go_through_the_proxy(scheme: str, login: tuple[str, str] | None) -> None:
    credentials = "" if login is None else "me:p%40ss%3Aw%2F%C3%B6@"
    async with peer(ANSWERS) as broker, proxy(scheme, login=login) as way:
        await beat("127.0.0.1", broker.port, through(f"{scheme}://{credentials}127.0.0.1:{way.port}"))
        assert way.asked == [("127.0.0.1", broker.port)]


@pytest.mark.parametrize("scheme", SCHEMES)
async def test_tls_to_the_broker_behind_the_proxy(scheme: str, server: ssl.SSLContext) -> None:
    async with peer(ANSWERS, ssl_context=server) as broker, proxy(scheme) as way:
        options = through(f"{scheme}://127.0.0.1:{way.port}", tls=GivenContext(trusting()))
        await beat("localhost", broker.port, options)


@pytest.mark.parametrize(
    "inner",
    [
        False,
        pytest.param(
            True, marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="TLS in TLS came with Python 3.11")
        ),
    ],
)
async def test_a_proxy_with_tls(inner: bool, server: ssl.SSLContext) -> None:
    """The broker's TLS is inside the proxy's."""
    async with peer(ANSWERS, ssl_context=server if inner else None) as broker, proxy("connect", tls=server) as way:
        url = f"https://localhost:{way.port}"
        await beat("localhost", broker.port, through(url, trusting(), tls=GivenContext(trusting()) if inner else None))
        assert way.asked == [("localhost", broker.port)]


@pytest.mark.parametrize("scheme", ["socks5h", "http"])
async def test_the_proxy_resolves_names(scheme: str) -> None:
    async with peer(ANSWERS) as broker, proxy(scheme, leads_to={"kafka.internal": "127.0.0.1"}) as way:
        await beat("kafka.internal", broker.port, through(f"{scheme}://127.0.0.1:{way.port}"))
        assert way.asked == [("kafka.internal", broker.port)]


async def test_with_socks5_the_client_resolves_names() -> None:
    async with peer(ANSWERS) as broker, proxy("socks5") as way:
        await beat("localhost", broker.port, through(f"socks5://127.0.0.1:{way.port}"))
        assert way.asked[-1] == ("127.0.0.1", broker.port)


async def test_a_name_that_the_client_cannot_resolve_for_socks5_is_one_for_the_proxy() -> None:
    async with proxy("socks5") as way:
        with pytest.raises(
            BrokerConnectionError, match=r"cannot be resolved: .*; with socks5h:// in proxy_url the proxy"
        ):
            await beat("a.invalid", 9092, through(f"socks5://127.0.0.1:{way.port}"))


async def test_hosts_of_no_proxy_are_reached_directly() -> None:
    async with peer(ANSWERS) as broker, proxy("http") as way:
        await beat("127.0.0.1", broker.port, through(f"http://127.0.0.1:{way.port}", no_proxy="127.0.0.0/8"))
        assert way.asked == []


async def test_a_mapped_address_is_what_the_proxy_gets() -> None:
    async with peer(ANSWERS) as broker, proxy("socks5h") as way:
        options = through(f"socks5h://127.0.0.1:{way.port}", address_map=lambda host, port: ("127.0.0.1", broker.port))
        await beat("kafka.internal", 9092, options)
        assert way.asked == [("127.0.0.1", broker.port)]


@pytest.mark.parametrize(
    ("scheme", "settings", "kind", "text"),
    [
        ("socks5", {"refuses": 5}, BrokerConnectionError, r"cannot connect to 127.0.0.1:\d+: connection refused"),
        ("socks5h", {"refuses": 4}, BrokerConnectionError, "host unreachable"),
        ("socks5", {"refuses": 77}, BrokerConnectionError, "reply 77"),
        ("http", {"refuses": "403 Forbidden by policy"}, BrokerConnectionError, "403 Forbidden by policy"),
        ("http", {"refuses": "502 Bad Gateway"}, BrokerConnectionError, r"does not connect to .*: 502 Bad Gateway"),
        ("socks5", {"login": ("a", "b")}, AuthenticationError, r"rejected the credentials \(status 1\)"),
        ("http", {"login": ("a", "b")}, AuthenticationError, r"rejected the credentials \(407 Proxy Auth"),
    ],
)
async def test_a_refusal_names_the_proxy_and_not_the_password(
    scheme: str, settings: Any, kind: type[KafkaError], text: str
) -> None:
    async with peer(ANSWERS) as broker, proxy(scheme, **settings) as way:
        url = f"{scheme}://me:sesame@127.0.0.1:{way.port}"
        with pytest.raises(kind, match=rf"proxy {scheme}://127.0.0.1:{way.port} .*{text}") as caught:
            await beat("127.0.0.1", broker.port, through(url))
        assert type(caught.value) is kind
        assert "sesame" not in str(caught.value)


@pytest.mark.parametrize("scheme", ["socks5", "http"])
async def test_a_proxy_that_wants_credentials_says_so(scheme: str) -> None:
    async with proxy(scheme, login=("a", "b")) as way:
        with pytest.raises(AuthenticationError, match=r"requires authentication .*user:password@ before the host"):
            await beat("127.0.0.1", 9, through(f"{scheme}://127.0.0.1:{way.port}"))


@pytest.mark.parametrize(
    ("scheme", "reply", "text"),
    [
        ("socks5", b"HTTP/1.1 400 Bad Request\r\n\r\n", "is no SOCKS5 proxy: it responds like an HTTP server"),
        ("socks5", b"SSH-2.0-OpenSSH_9.2\r\n", "is no SOCKS5 proxy: it responds like an SSH server"),
        ("http", b"SSH-2.0-OpenSSH_9.2\r\n", "is no HTTP proxy: it responds like an SSH server"),
        ("http", b"\x05\xff", "is no HTTP proxy: it responds like a SOCKS5 proxy"),
        ("http", b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 10_000, "is no HTTP proxy"),
        ("http", b"HTTP/1.1 2000 OK\r\n\r\n", "is no HTTP proxy"),
        ("http", b"\x15\x03\x01\0\x02\x02\x46", r"like a TLS server \(proxy_url begins with 'https://'"),
        ("http", b"\x05\0", r"like a SOCKS5 proxy \(proxy_url begins with 'socks5://'"),
        ("socks5", b"\x05\0\x04\0\0\x01" + bytes(6), r"is no SOCKS5 proxy: it responds with b'\\x04"),
        ("socks5", b"\x05\0\x05\0\0\x09" + bytes(6), r"is no SOCKS5 proxy: it responds with b'\\x00\\t"),
        ("socks5", b"\x05\0HTTP/1.1 400 Bad\r\n\r\n", "is no SOCKS5 proxy: it responds like an HTTP server"),
        ("socks5", b"", "closed the connection in its handshake"),
        ("http", b"", "closed the connection in its handshake"),
    ],
)
async def test_what_is_no_proxy_is_named(scheme: str, reply: bytes, text: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(2)
        writer.write(reply)
        await writer.drain()

    async with raw_peer(serve) as port:
        with pytest.raises(BrokerConnectionError, match=text) as caught:
            await beat("127.0.0.1", 9, through(f"{scheme}://127.0.0.1:{port}"))
        assert isinstance(caught.value, NotKafkaError) == bool(reply)


@pytest.mark.parametrize("rest", [b"", b"\0\x01", b"\0\x01\0\0\0\0\0\0"])
async def test_a_proxy_that_closes_with_its_refusal(rest: bytes) -> None:
    """Some leave out the address, which has no meaning then."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(3)
        writer.write(b"\x05\0\x05\x05" + rest)
        await writer.drain()

    async with raw_peer(serve) as port:
        with pytest.raises(BrokerConnectionError, match="cannot connect to kafka:9: connection refused") as caught:
            await beat("kafka", 9, through(f"socks5h://127.0.0.1:{port}"))
        assert not isinstance(caught.value, NotKafkaError)


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (b"HTTP/1.1 502 \x1b[31mred\x07\r\n\r\n", r"does not connect to kafka:9: 502 \?\[31mred\?$"),
        (b"HTTP/1.1 101 Switching Protocols\r\n\r\n", "does not connect to kafka:9: 101 Switching"),
        (
            b"HTTP/1.1 407 No\r\nProxy-Authenticate: NTLM\r\nproxy-authenticate: Negotiate x\r\n\r\n",
            r"\(407 No; it wants Ntlm, Negotiate, and this client has Basic alone\)",
        ),
        (b'HTTP/1.1 407 No\r\nProxy-Authenticate: Basic realm="x"\r\n\r\n', r"\(407 No\)"),
    ],
)
async def test_what_a_proxy_says_is_quoted_without_control_characters(reply: bytes, text: str) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(reply)
        await writer.drain()

    async with raw_peer(serve) as port:
        with pytest.raises(BrokerConnectionError, match=text):
            await beat("kafka", 9, through(f"http://127.0.0.1:{port}"))


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.0 200 OK\n\n",
        b"HTTP/1.1 204\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
    ],
)
async def test_a_response_in_another_form(head: bytes) -> None:
    """Lines that end by LF, other codes of success, and interim responses; each byte arrives on its own."""
    async with peer(ANSWERS) as broker:

        async def slowly(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", broker.port)
            for byte in head:
                writer.write(bytes((byte,)))
                await asyncio.sleep(0)

            async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
                while data := await source.read(1000):
                    sink.write(data)
                sink.close()

            await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer), return_exceptions=True)

        async with raw_peer(slowly) as port:
            await beat("kafka", 9, through(f"http://127.0.0.1:{port}"))


async def test_what_is_wrong_with_tls_to_the_proxy_names_its_option(tmp_path: Path) -> None:
    """The brokers' options have no effect there."""
    files = make(tmp_path)
    context = ssl.create_default_context(cafile=files["ca.pem"])
    cases: list[tuple[ssl.SSLContext | None, ssl.SSLContext | None, str]] = [
        (files.server(), None, "certificate of proxy .* was rejected: .*proxy_ssl_context has the authorities"),
        (files.server("elsewhere"), context, "was rejected: IP address mismatch.*proxy_ssl_context .*name is verified"),
        (files.server(client_auth=True), context, "ended the TLS handshake: check proxy_ssl_context: its client cert"),
    ]
    for server, client, text in cases:
        async with proxy("connect", tls=server) as way:
            with pytest.raises(AuthenticationError, match=text) as caught:
                await beat("kafka", 9, through(f"https://127.0.0.1:{way.port}", client))
        assert "ssl_cafile" not in str(caught.value)


async def test_a_broker_without_certificate_is_refused_behind_a_proxy_too() -> None:
    async with (
        peer(ANSWERS, ssl_context=anonymous(ssl.Purpose.CLIENT_AUTH)) as broker,
        proxy("connect") as way,
    ):
        options = through(f"http://127.0.0.1:{way.port}", tls=GivenContext(anonymous(ssl.Purpose.SERVER_AUTH)))
        with pytest.raises(AuthenticationError, match=r"broker 1 .*has no certificate"):
            await beat("127.0.0.1", broker.port, options)
        assert broker.requests == []


async def test_a_proxy_without_certificate_is_refused() -> None:
    async with proxy("connect", tls=anonymous(ssl.Purpose.CLIENT_AUTH)) as way:
        with pytest.raises(
            AuthenticationError, match=r"proxy .* has no certificate: .*, which proxy_ssl_context permits"
        ):
            await beat("kafka", 9, through(f"https://127.0.0.1:{way.port}", anonymous(ssl.Purpose.SERVER_AUTH)))


async def test_tls_to_a_proxy_without_tls() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async with raw_peer(plain) as port:
        with pytest.raises(NotKafkaError, match=r"does not speak TLS .*proxy_url begins with 'http://'"):
            await beat("kafka", 9, through(f"https://127.0.0.1:{port}"))


async def test_a_proxy_that_cannot_be_reached() -> None:
    with held_port() as port:
        text = rf"cannot connect to broker 1: proxy http://127.0.0.1:{port}: 127.0.0.1: connection refused"
        with pytest.raises(BrokerConnectionError, match=text):
            await beat("127.0.0.1", 9, through(f"http://127.0.0.1:{port}"))


@pytest.mark.parametrize("scheme", ["socks5", "http"])
async def test_a_silent_proxy_ends_at_the_deadline(scheme: str) -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with raw_peer(mute) as port:
        with pytest.raises(BrokerConnectionError, match="the handshake took too long"):
            await beat("127.0.0.1", 9, through(f"{scheme}://127.0.0.1:{port}"), timeout=1.5)


@pytest.mark.parametrize("scheme", ["socks5", "http"])
async def test_cancelling_in_the_handshake_closes_the_socket(scheme: str) -> None:
    arrived, gone = asyncio.Event(), asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        arrived.set()
        while await reader.read(1000):
            pass
        gone.set()

    async with raw_peer(mute) as port:
        opening = asyncio.ensure_future(beat("127.0.0.1", 9, through(f"{scheme}://127.0.0.1:{port}")))
        await arrived.wait()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        await gone.wait()


@pytest.mark.parametrize("host", ["a b", "a\r\nX: y", "a\tb", "x" * 300, "\ud800"])
async def test_what_is_no_host_name_is_not_sent_to_a_proxy(host: str) -> None:
    async with proxy("http") as way:
        with pytest.raises(BrokerConnectionError, match="is no host name"):
            await beat(host, 9, through(f"http://127.0.0.1:{way.port}"))
        assert way.asked == []


async def test_what_the_broker_sends_with_the_proxys_response_is_the_brokers() -> None:
    """Bytes of a server that speaks first arrive together with the response."""

    async def eager(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\nSSH-2.0-OpenSSH_9.2\r\n")
        await writer.drain()
        await reader.read()

    async with raw_peer(eager) as port:
        with pytest.raises(NotKafkaError, match="broker 1 does not speak Kafka: it responds like an SSH server"):
            await beat("kafka", 22, through(f"http://127.0.0.1:{port}"))
        with pytest.raises(NotKafkaError, match="broker 1 does not speak TLS"):
            await beat("kafka", 22, through(f"http://127.0.0.1:{port}", tls=GivenContext(trusting())))


async def test_the_brokers_certificate_is_verified_behind_a_proxy(server: ssl.SSLContext) -> None:
    async with peer(ANSWERS, ssl_context=server) as broker, proxy("http", leads_to={"kafka": "127.0.0.1"}) as way:
        options = through(f"http://127.0.0.1:{way.port}", tls=GivenContext(trusting()))
        with pytest.raises(AuthenticationError, match="the certificate of broker 1 was rejected: Hostname mismatch"):
            await beat("kafka", broker.port, options)
