"""The first mistakes of a newcomer: each error says what was wrong, where, and how to do it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from aiokproto import Broker, Client, Consumer, Producer
from aiokproto.broker import Security
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.errors import (
    BootstrapError,
    ClientClosedError,
    CommitError,
    ConfigurationError,
    KafkaError,
    NotKafkaError,
    UnknownTopicError,
)
from aiokproto.group.assignors import RangeAssignor
from tests.docs.mistakes import CALLS, CONSUMING, OPTIONS, PRODUCING, SERVERS, Mistake, consumer, producer
from tests.timeouts import LONG_TIMEOUT


def check(mistake: Mistake, raised: BaseException) -> None:
    text, at = str(raised), 0
    for part in mistake.texts:
        assert part in text[at:], f"{part!r} is not in {text!r}"
        at = text.index(part, at) + len(part)
    assert "\n" not in text


@pytest.mark.parametrize("mistake", OPTIONS + CALLS)
def test_wrong_constructor_and_method_calls(mistake: Mistake) -> None:
    with pytest.raises(mistake.error) as raised:
        mistake.call()
    check(mistake, raised.value)


@pytest.fixture
async def servers() -> AsyncIterator[str]:
    async with Broker(auto_create_topics=False) as broker:
        await broker.create_topic("flights", partitions=3)
        yield broker.bootstrap_servers


async def outcome(call: Callable[..., Any], given: object) -> None:
    result = call(given)
    if inspect.isawaitable(result):
        await asyncio.wait_for(result, LONG_TIMEOUT)


@pytest.mark.parametrize("mistake", PRODUCING)
async def test_wrong_calls_of_a_producer(mistake: Mistake, servers: str) -> None:
    async with Producer(bootstrap_servers=servers) as producer:
        with pytest.raises(mistake.error) as raised:
            await outcome(mistake.call, producer)
        check(mistake, raised.value)


@pytest.mark.parametrize("mistake", CONSUMING)
async def test_wrong_calls_of_a_consumer(mistake: Mistake, servers: str) -> None:
    async with Consumer("flights", bootstrap_servers=servers) as consumer:
        with pytest.raises(mistake.error) as raised:
            await outcome(mistake.call, consumer)
        check(mistake, raised.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda: producer().send("flights", b""),
        lambda: producer().post("flights", b""),
        lambda: producer().flush(),
        lambda: anext(consumer("flights")),
        lambda: consumer("flights").poll(),
        lambda: consumer("flights", group_id="report").commit(),
        lambda: Client(bootstrap_servers=SERVERS).request(MetadataRequest()),
    ],
)
async def test_a_client_that_is_not_started_names_async_with(call: Callable[[], Any]) -> None:
    with pytest.raises(ClientClosedError, match=r"is not started: use async with, or await start()"):
        await call()


@pytest.mark.parametrize("request_", ["Metadata", MetadataRequest])
async def test_a_client_is_given_a_request_object(request_: Any, servers: str) -> None:
    async with Client(bootstrap_servers=servers) as client:
        with pytest.raises(ConfigurationError, match=r"request=.* must be a request, as in MetadataRequest\("):
            await client.request(request_)


@pytest.mark.parametrize("node", ["controller", True, 1.0])
async def test_a_node_is_given_by_its_id(node: Any, servers: str) -> None:
    async with Client(bootstrap_servers=servers) as client:
        with pytest.raises(ConfigurationError, match=r"node=.*: must be the node id of a broker"):
            await client.request(MetadataRequest(), node=node)


async def test_a_closed_client_refuses_requests(servers: str) -> None:
    async with (
        Producer(bootstrap_servers=servers) as producer,
        Consumer("flights", bootstrap_servers=servers) as consumer,
    ):
        pass
    with pytest.raises(ClientClosedError, match=r"the producer is closed"):
        await producer.send("flights", b"")
    with pytest.raises(ClientClosedError, match=r"the consumer is closed"):
        await anext(consumer)


async def test_reading_without_a_subscription_names_both_calls(servers: str) -> None:
    async with Consumer(bootstrap_servers=servers) as consumer:
        with pytest.raises(ConfigurationError, match=r"nothing to read: subscribe\(\) or assign\(\) first"):
            await anext(consumer)


async def test_subscribing_to_an_unknown_topic_ends_the_start(servers: str) -> None:
    with pytest.raises(UnknownTopicError, match=r"'filghts'.*it does not exist"):
        async with Consumer("filghts", bootstrap_servers=servers):
            pass


async def test_two_tasks_cannot_read_one_consumer(servers: str) -> None:
    async with Consumer("flights", bootstrap_servers=servers) as consumer:
        first = asyncio.create_task(anext(consumer))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match=r"another task is waiting for records of this consumer; only one"):
            await anext(consumer)
        first.cancel()
        await asyncio.wait([first])


async def test_a_commit_takes_what_was_processed(servers: str) -> None:
    async with Producer(bootstrap_servers=servers) as producer:
        await producer.send("flights", b"", partition=0)
    async with Consumer(
        "flights", bootstrap_servers=servers, group_id="report", auto_offset_reset="earliest"
    ) as consumer:
        record = await anext(consumer)
        wrong: list[tuple[Any, type[KafkaError], str]] = [
            (record.offset, ConfigurationError, r"commit\(\) takes the record itself"),
            ([("flights", 0)], ConfigurationError, r"commit\(\) takes a record, a batch, a list of records, or a dict"),
            ({"flights": 5}, ConfigurationError, r"pass TopicPartition\(topic, partition\)"),
            ({("flights", 0): -1}, ConfigurationError, "offset=-1"),
            ({("others", 0): 5}, ConfigurationError, "topic 'others' is not subscribed"),
        ]
        for offsets, error, text in wrong:
            with pytest.raises(error, match=text):
                await consumer.commit(offsets)
        result = await consumer.commit({("flights", 99): 5})
        with pytest.raises(CommitError, match="flights-99 not committed: not assigned to this member"):
            result.check()


async def test_a_missing_await_is_reported_by_python(servers: str) -> None:
    async with Producer(bootstrap_servers=servers) as producer:
        with pytest.warns(RuntimeWarning, match=r"\.send' was never awaited"):
            producer.send("flights", b"")  # type: ignore[unused-coroutine]


async def test_a_delivery_has_no_result_before_it_is_awaited(servers: str) -> None:
    async with Producer(bootstrap_servers=servers, linger_ms=1000) as producer:
        delivery = await producer.post("flights", b"")
        with pytest.raises(asyncio.InvalidStateError, match=r"flights-. is not known yet"):
            delivery.result()


async def test_a_port_without_a_listener() -> None:
    with pytest.raises(BootstrapError, match=r"127\.0\.0\.1:1: .*connection refused; check bootstrap_servers"):
        async with Producer(bootstrap_servers="127.0.0.1:1", bootstrap_resolve_timeout_ms=0):
            pass


async def test_tls_against_a_plain_listener(servers: str) -> None:
    with pytest.raises(BootstrapError, match=r"check bootstrap_servers and security_protocol"):
        async with Producer(bootstrap_servers=servers, security_protocol="SSL", bootstrap_resolve_timeout_ms=0):
            pass


async def test_a_listener_with_sasl() -> None:
    async with Broker(security=Security("SASL_PLAINTEXT", users={"alice": "secret"})) as broker:
        with pytest.raises(
            BootstrapError,
            match=r"first request after ApiVersions: .* expects authentication \(security_protocol='SASL",
        ):
            async with Producer(bootstrap_servers=broker.bootstrap_servers, bootstrap_resolve_timeout_ms=0):
                pass


async def test_the_port_of_a_web_server() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(NotKafkaError, match=r"responds like an HTTP server.*check bootstrap_servers"):
            async with Producer(bootstrap_servers=f"127.0.0.1:{port}"):
                pass


def test_one_assignor_needs_no_list() -> None:
    """The type allows it; it was taken for a sequence."""
    consumer("flights", group_id="report", partition_assignment_strategy=RangeAssignor())
