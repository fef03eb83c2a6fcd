"""Peers that are not a broker's listener for this client: the error says what they look like, and what to do."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiokproto.client import Client
from aiokproto.codec.frames import encode_response
from aiokproto.codec.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.errors import BootstrapError, BrokerConnectionError, DeadlineError, KafkaError, NotKafkaError
from aiokproto.net.foreign_protocols import describe_bytes, recognize, usual_service
from tests.net.peer import connected, peer, raw_peer, serves
from tests.timeouts import LONG_TIMEOUT

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def speaks_first(banner: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(banner)
        await writer.drain()
        await reader.read()

    return serve


def answers(reply: bytes, *, closes: bool = True) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        writer.write(reply)
        await writer.drain()
        if not closes:
            await reader.read()

    return serve


SETTINGS = bytes.fromhex("00001204000000000000030000008000040001000000050000ffff")
GOAWAY = bytes.fromhex("0000080700000000000000000000000001")
CONNECT_RESPONSE = bytes.fromhex("00000025 00000000 00007530 0100 0000 1234 5678 00000010") + bytes(16) + b"\0"
POSTGRES = b"E\0\0\0\x91SFATAL\0VFATAL\0C0A000\0Munsupported frontend protocol 18.4: server supports 3.0 to 3.2\0\0"


@pytest.mark.parametrize(
    ("serve", "text"),
    [
        (answers(b"HTTP/1.1 400 Bad Request\r\n\r\n"), r"like an HTTP server \('HTTP/1.1 400 Bad Request'\)"),
        (answers(b"<html><body>Bad request</body></html>"), "like an HTTP server"),
        (answers(SETTINGS + GOAWAY), "like an HTTP/2 server"),
        (answers(bytes.fromhex("000000040000000000") + GOAWAY), "like an HTTP/2 server"),
        (speaks_first(SETTINGS), "like an HTTP/2 server"),
        (answers(b"\x15\x03\x03\x00\x02\x02\x50"), r"like a TLS server \(connect to a TLS listener with security_pr"),
        (speaks_first(b"SSH-2.0-OpenSSH_9.2\r\n"), r"like an SSH server \('SSH-2.0-OpenSSH_9.2'\)"),
        (answers(CONNECT_RESPONSE), r"like ZooKeeper \(bootstrap_servers takes brokers"),
        (answers(POSTGRES), "like a PostgreSQL server"),
        (speaks_first(b"\x4a\0\0\0\x0a8.0.36\0" + bytes(60)), "like a MySQL server"),
        (answers(b"-ERR unknown command\r\n"), r"like a Redis server \('-ERR unknown command'\)"),
        (speaks_first(b"220 mail.example.org ESMTP Postfix\r\n"), "like an SMTP server"),
        (speaks_first(b"220 ProFTPD Server ready.\r\n"), "like an FTP server"),
        (speaks_first(b"* OK IMAP4rev1\r\n"), "like an IMAP server"),
        (speaks_first(b"+OK POP3 ready\r\n"), "like a POP3 server"),
        (answers(b"AMQP\0\0\x09\x01"), "like an AMQP server"),
        (speaks_first(b'INFO {"server_id":"x"}\r\n'), "like a NATS server"),
        (answers(b"ERROR\r\n"), "like a memcached server"),
        (speaks_first(b"RFB 003.008\n"), "like a VNC server"),
        (speaks_first(b"\xff\xfd\x18\xff\xfd\x20"), "like a Telnet server"),
        (answers(b"\x05\xff"), r"like a SOCKS5 proxy \(a proxy goes into proxy_url\)"),
        (answers(b"\xde\xad\xbe\xef"), r"it responds with b'\\xde\\xad\\xbe\\xef'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_peer_is_named_by_what_it_sends(serve: Serve, text: str) -> None:
    """This includes a peer that keeps the connection open, or whose first bytes are a possible length of a frame."""
    async with raw_peer(serve) as port:
        kind = BrokerConnectionError if "SOCKS5" in text else NotKafkaError
        with pytest.raises(kind, match=rf"127.0.0.1:{port} does not speak Kafka: .*{text}"):
            async with connected(port, timeout=5.0):
                pass


@pytest.mark.parametrize(
    ("serve", "kind", "text"),
    [
        (answers(b"", closes=False), DeadlineError, "nothing arrived: the broker hangs, the listener expects TLS"),
        (answers(b"\0\0", closes=False), DeadlineError, r"only b'\\x00\\x00' arrived: the broker hangs"),
        (
            answers(b""),
            BrokerConnectionError,
            "before its first response: the broker is starting, the listener",
        ),
        (answers(b"\0\0\0\x40\0\0"), BrokerConnectionError, "in the middle of a response"),
    ],
    ids=["silent", "begins", "closes", "breaks off"],
)
async def test_a_peer_that_says_nothing(serve: Serve, kind: type[KafkaError], text: str) -> None:
    async with raw_peer(serve) as port:
        with pytest.raises(kind, match=text):
            # The parts that the deadline doesn't end may take their time on a busy machine.
            async with connected(port, timeout=1.5 if kind is DeadlineError else LONG_TIMEOUT) as line:
                await line.send(MetadataRequest(topics=[]), timeout=LONG_TIMEOUT)


async def test_a_client_reports_it_as_the_reason_of_start() -> None:
    async with raw_peer(answers(SETTINGS + GOAWAY)) as port:
        with pytest.raises(NotKafkaError, match=r"like an HTTP/2 server.*check bootstrap_servers"):
            async with Client(bootstrap_servers=f"127.0.0.1:{port}"):
                pass


async def test_a_silent_port_in_start() -> None:
    async with raw_peer(answers(b"", closes=False)) as port:
        with pytest.raises(BootstrapError, match="nothing arrived: the broker hangs"):
            async with Client(
                bootstrap_servers=f"127.0.0.1:{port}",
                socket_connection_setup_timeout_ms=1500,
                bootstrap_resolve_timeout_ms=0,
            ):
                pass


async def test_the_controllers_listener() -> None:
    """Its ApiVersions has Vote, and no Metadata."""
    async with peer({ApiVersionsRequest: serves(Vote=(0, 2), Fetch=(0, 17), DescribeCluster=(0, 2))}) as controller:
        with pytest.raises(BootstrapError, match=r"listener of KRaft controllers: connect to one of brokers"):
            async with Client(bootstrap_servers=controller.address):
                pass


def test_a_response_of_a_broker_is_no_other_protocol() -> None:
    for version in ApiVersionsRequest.versions:
        response = serves(Metadata=(0, 13), Produce=(0, 13))(None, version)
        assert isinstance(response, ApiVersionsResponse)
        assert recognize(bytes(encode_response(response, version, 0))) is None


def test_the_usual_service_of_a_port() -> None:
    assert "ZooKeeper" in usual_service(2181)
    assert usual_service(9092) == ""


def test_a_binary_line_is_not_shown() -> None:
    assert describe_bytes(b"SSH-\xff\0\n") == "it responds like an SSH server"
