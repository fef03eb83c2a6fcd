"""Common mistakes of users: each has its own error that says what is wrong, and where."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from aiokproto import Client, Consumer, Producer
from aiokproto.errors import (
    BootstrapError,
    ConfigurationError,
    DeadlineError,
    InvalidRecordError,
    InvalidTopicError,
    KafkaError,
    MessageTooLargeError,
    NotKafkaError,
    UnknownTopicError,
    UnsupportedCompressionError,
)
from tests.clusters import BehaviourCluster

FACES: list[Callable[..., Producer | Consumer | Client]] = [Producer, Consumer, Client]
Reply = Callable[[asyncio.StreamReader, asyncio.StreamWriter], "asyncio.Future[None]"]


@asynccontextmanager
async def server(reply: bytes | None) -> AsyncIterator[str]:
    """A server that is not Kafka: answers any data with ``reply``, or never."""
    silent = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(64)
        if reply is None:
            await silent.wait()
        else:
            writer.write(reply)
        writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    finally:
        silent.set()
        listening.close()
        await listening.wait_closed()


@pytest.mark.parametrize("face", FACES)
async def test_a_port_without_a_listener(face: Callable[..., Producer]) -> None:
    with socket.socket() as silent:
        # The port is bound, so that no other process gets it, but nothing listens.
        silent.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(BootstrapError, match=address):
            async with face(bootstrap_servers=address, bootstrap_resolve_timeout_ms=100):
                pass


@pytest.mark.parametrize("face", FACES)
async def test_a_host_without_an_address(face: Callable[..., Producer]) -> None:
    with pytest.raises(BootstrapError, match=r"no-such-host\.invalid:9092"):
        async with face(bootstrap_servers="no-such-host.invalid:9092", bootstrap_resolve_timeout_ms=1):
            pass


@pytest.mark.parametrize(
    ("reply", "seen"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "HTTP"),
        (b"\x15\x03\x03\x00\x02\x02\x50", "TLS"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH"),
    ],
    ids=["http", "tls", "ssh"],
)
async def test_a_server_that_is_not_kafka(reply: bytes, seen: str) -> None:
    async with server(reply) as address:
        with pytest.raises(NotKafkaError, match=seen) as caught:
            async with Client(bootstrap_servers=address):
                pass
        assert address in str(caught.value)


async def test_a_server_that_never_answers() -> None:
    async with server(None) as address:
        with pytest.raises((BootstrapError, DeadlineError), match=address):
            async with Client(
                bootstrap_servers=address,
                request_timeout_ms=50,
                socket_connection_setup_timeout_ms=50,
                bootstrap_resolve_timeout_ms=100,
            ):
                pass


@pytest.mark.parametrize("address", ["", "host:port", "host:0", "host:99999", ":9092", "a:1,b:"])
def test_malformed_addresses(address: str) -> None:
    with pytest.raises(ConfigurationError, match="bootstrap_servers"):
        Client(bootstrap_servers=address)


def test_a_misspelt_option_names_the_right_one() -> None:
    with pytest.raises(ConfigurationError, match=r"'linger'.*'linger_ms'"):
        Producer(bootstrap_servers="a:1", linger=5)  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match=r"'groupid'.*'group_id'"):
        Consumer("t", bootstrap_servers="a:1", groupid="g")  # type: ignore[call-arg]
    with pytest.raises(ConfigurationError, match=r"'client_ids'.*'client_id'"):
        Client(bootstrap_servers="a:1", client_ids="c")  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("option", "value"),
    [("acks", 2), ("linger_ms", -1), ("batch_size", "big"), ("buffer_memory", 0), ("partitioner", "murmur3")],
)
def test_an_option_with_an_unusable_value(option: str, value: object) -> None:
    with pytest.raises(ConfigurationError, match=option):
        Producer(bootstrap_servers="a:1", **{option: value})  # type: ignore[arg-type]


def test_an_unknown_codec() -> None:
    with pytest.raises((ConfigurationError, UnsupportedCompressionError), match=r"brotli.*zstd"):
        Producer(bootstrap_servers="a:1", compression_type="brotli")  # type: ignore[arg-type]


async def test_values_keys_and_headers_that_are_not_bytes(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        with pytest.raises(InvalidRecordError, match=r"value must be bytes.*str"):
            await producer.send(topic, "text")  # type: ignore[arg-type]
        with pytest.raises(InvalidRecordError, match=r"key must be bytes.*int"):
            await producer.send(topic, b"v", key=1)  # type: ignore[arg-type]
        with pytest.raises(InvalidRecordError, match="header"):
            await producer.send(topic, b"v", headers=[("h", "text")])  # type: ignore[list-item]
        with pytest.raises(InvalidRecordError, match="partition"):
            await producer.send(topic, b"v", partition=7)
        assert (await producer.send(topic, b"fine")).offset == 0


async def test_a_topic_that_does_not_exist(cluster: BehaviourCluster, topic: str) -> None:
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        with pytest.raises(UnknownTopicError, match=topic):
            await producer.send(topic, b"v")
        with pytest.raises(InvalidTopicError, match=r"not a name"):
            await producer.send("not a name", b"v")
    with pytest.raises(UnknownTopicError, match=topic):
        async with Consumer(topic, bootstrap_servers=cluster.bootstrap_servers):
            pass


async def test_a_message_too_large_for_the_client(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    async with Producer(bootstrap_servers=cluster.bootstrap_servers, max_request_size=1000) as producer:
        with pytest.raises(MessageTooLargeError, match="max_request_size"):
            await producer.send(topic, b"v" * 2000)
        assert (await producer.send(topic, b"fine")).offset == 0


async def test_a_message_too_large_for_the_topic(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, config={"max.message.bytes": "1000"})
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        with pytest.raises(MessageTooLargeError, match=topic):
            await producer.send(topic, b"v" * 2000)
        assert (await producer.send(topic, b"fine")).offset == 0


async def test_all_these_errors_are_kafka_errors() -> None:
    with pytest.raises(KafkaError):
        Client(bootstrap_servers="")
