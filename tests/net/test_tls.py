"""Connections over TLS, and the errors when one side does not speak it or is not trusted."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import pytest

from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.schema import Request
from aiokproto.config import ClusterConfig
from aiokproto.errors import AuthenticationError, BrokerConnectionError, NotKafkaError
from aiokproto.net.open import open_connection
from aiokproto.net.tls_errors import tls_error
from aiokproto.security.tls.contexts import Given
from tests.net.peer import Answer, config, connected, peer, raw_peer, serves
from tests.timeouts import LONG_TIMEOUT

# A self-signed certificate for localhost and 127.0.0.1 that expires in a hundred years; used in tests only.
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBmzCCAUGgAwIBAgIUKhMmqep5tGIvTnjcZgja4ln9jHcwCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJbG9jYWxob3N0MCAXDTI2MTEyMTEwMjgwMFoYDzIxMjYxMDI4
MTAyODAwWjAUMRIwEAYDVQQDDAlsb2NhbGhvc3QwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAAQ5NG1mGVv4M/GkAq1SD4S2lwAt/xgApKwqXdJyqVIsIuwcEMeEUzS8
gN0pLX7MN8XYQq7hopctVo+0kw0rISBoo28wbTAdBgNVHQ4EFgQUPZMN0vR+f3q3
400vWwDF8nlCZk0wHwYDVR0jBBgwFoAUPZMN0vR+f3q3400vWwDF8nlCZk0wGgYD
VR0RBBMwEYIJbG9jYWxob3N0hwR/AAABMA8GA1UdEwEB/wQFMAMBAf8wCgYIKoZI
zj0EAwIDSAAwRQIgYdVlFJ0N0M60bCKlO6xmpOtrSoGfPybt7vbpLjMFXdICIQCR
uClqFDudy+vNfGmmAbO87/VNQrv+2wiR9rPvNCy3tQ==
-----END CERTIFICATE-----
"""
KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgXAoBVNo23iQyOxEG
hQ2VZnB8BryFuCc4K7toElXuoBChRANCAAQ5NG1mGVv4M/GkAq1SD4S2lwAt/xgA
pKwqXdJyqVIsIuwcEMeEUzS8gN0pLX7MN8XYQq7hopctVo+0kw0rISBo
-----END PRIVATE KEY-----
"""

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
ANSWERS: dict[type[Request[Any]], Answer] = {
    ApiVersionsRequest: serves(Heartbeat=(0, 4)),
    HeartbeatRequest: lambda request, version: HeartbeatResponse(error_code=0),
}


@pytest.fixture
def server(tmp_path: Path) -> ssl.SSLContext:
    """The SSL context of a broker with that certificate."""
    (tmp_path / "both.pem").write_text(KEY + CERTIFICATE)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(tmp_path / "both.pem")
    return context


@pytest.fixture
def trusting() -> ssl.SSLContext:
    """The SSL context of a client that trusts it."""
    return ssl.create_default_context(cadata=CERTIFICATE)


async def test_requests_over_tls(server: ssl.SSLContext, trusting: ssl.SSLContext) -> None:
    async with peer(ANSWERS, ssl_context=server) as broker, connected(broker.port, tls=Given(trusting)) as line:
        answers = await asyncio.gather(*(line.send(BEAT, timeout=LONG_TIMEOUT) for _ in range(20)))
        assert {answer.error_code for answer in answers} == {0}


async def test_a_certificate_that_is_not_trusted(server: ssl.SSLContext) -> None:
    async with peer(ANSWERS, ssl_context=server) as broker:
        with pytest.raises(AuthenticationError, match=rf"certificate of 127.0.0.1:{broker.port} was rejected: self"):
            async with connected(broker.port, tls=Given(ssl.create_default_context())):
                pass


def anonymous(purpose: ssl.Purpose) -> ssl.SSLContext:
    """A context in which OpenSSL lets the peer do without a certificate."""
    made = ssl.create_default_context(purpose)
    made.maximum_version = ssl.TLSVersion.TLSv1_2
    made.set_ciphers("aNULL:@SECLEVEL=0")
    return made


# To a client both say the same: the broker's certificate is verified.
@pytest.mark.parametrize("mode", [ssl.CERT_REQUIRED, ssl.CERT_OPTIONAL])
async def test_a_broker_without_certificate_is_refused(mode: ssl.VerifyMode) -> None:
    """Although the application's own context permits it, and OpenSSL calls the handshake complete."""
    permitting = anonymous(ssl.Purpose.SERVER_AUTH)
    permitting.verify_mode = mode
    async with peer(ANSWERS, ssl_context=anonymous(ssl.Purpose.CLIENT_AUTH)) as broker:
        with pytest.raises(AuthenticationError, match=rf"127.0.0.1:{broker.port} has no certificate: .*ssl_context"):
            async with connected(broker.port, tls=Given(permitting)):
                pass
        assert broker.requests == []


async def test_an_application_can_decide_to_verify_no_server() -> None:
    unverified = anonymous(ssl.Purpose.SERVER_AUTH)
    unverified.check_hostname = False
    unverified.verify_mode = ssl.CERT_NONE
    async with (
        peer(ANSWERS, ssl_context=anonymous(ssl.Purpose.CLIENT_AUTH)) as broker,
        connected(broker.port, tls=Given(unverified)) as line,
    ):
        assert (await line.send(BEAT, timeout=LONG_TIMEOUT)).error_code == 0


async def test_tls_to_a_plain_listener(trusting: ssl.SSLContext) -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"220 mail.example.org ESMTP\r\n")
        await writer.drain()

    async with raw_peer(plain) as port:
        with pytest.raises(NotKafkaError, match=r"does not speak TLS .*: connect to a plain listener"):
            async with connected(port, tls=Given(trusting)):
                pass


async def test_plain_to_a_tls_listener(server: ssl.SSLContext) -> None:
    """A TLS listener can close a plain connection at once, as a starting broker does: the error lists the causes."""
    async with peer(ANSWERS, ssl_context=server) as broker:
        with pytest.raises(BrokerConnectionError, match=r"before its first response: .*security_protocol='SSL'"):
            async with connected(broker.port) as line:
                await line.send(MetadataRequest(topics=[]), timeout=LONG_TIMEOUT)


@pytest.mark.parametrize("name", [None, "kafka.example", lambda host, port: f"{host}.example"])
async def test_the_server_name_is_the_advertised_host_or_the_option(server: ssl.SSLContext, name: Any) -> None:
    """Also if the address is mapped: proxies that route by the server name (SNI) need it."""
    seen: list[str | None] = []
    server.sni_callback = lambda connection, host, context: seen.append(host)
    parsed = ClusterConfig.parse({"bootstrap_servers": "a:1", "ssl_server_hostname": name})
    trusted = ssl.create_default_context(cadata=CERTIFICATE)
    trusted.check_hostname = False
    async with peer(ANSWERS, ssl_context=server) as broker:
        mapped = config(
            tls=Given(trusted),
            server_hostname=parsed.server_hostname,
            address_map=lambda host, port: ("127.0.0.1", broker.port),
        )
        line = await open_connection("kafka", 9092, "broker 1", mapped, LONG_TIMEOUT)
        line.abort()
        await line.wait_closed()
    assert seen == ["kafka" if name is None else "kafka.example"]


async def test_tls_to_a_plain_broker(trusting: ssl.SSLContext) -> None:
    """A broker takes a ClientHello for a frame that is too large, and closes the connection."""

    async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert int.from_bytes(await reader.readexactly(4), "big") > 100 << 20

    async with raw_peer(broker) as port:
        with pytest.raises(BrokerConnectionError, match=r"without TLS does that: .*security_protocol='PLAINTEXT'"):
            async with connected(port, tls=Given(trusting)):
                pass


async def test_tls_to_a_silent_peer(trusting: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection's own deadline ends the handshake, however long that is: asyncio's is a minute."""
    monkeypatch.setattr("asyncio.constants.SSL_HANDSHAKE_TIMEOUT", 0.05)

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(100_000)

    async with raw_peer(mute) as port:
        with pytest.raises(BrokerConnectionError, match="no response to the TLS handshake: the listener"):
            async with connected(port, timeout=1.5, tls=Given(trusting)):
                pass


@pytest.mark.parametrize(
    ("reason", "kind"),
    [
        ("SSLV3_ALERT_CERTIFICATE_EXPIRED", AuthenticationError),
        ("TLSV1_ALERT_UNKNOWN_CA", AuthenticationError),
        ("SSLV3_ALERT_HANDSHAKE_FAILURE", AuthenticationError),
        ("TLSV1_ALERT_INTERNAL_ERROR", BrokerConnectionError),
        ("TLSV1_ALERT_USER_CANCELLED", BrokerConnectionError),
        ("WRONG_VERSION_NUMBER", NotKafkaError),
    ],
)
def test_which_tls_alerts_end_the_client(reason: str, kind: type[BrokerConnectionError]) -> None:
    """Only alerts about certificates and access end the client: a broker may send others for problems of its own."""
    error = ssl.SSLError(1, reason)
    error.reason = reason
    assert type(tls_error("b:1", error)) is kind
