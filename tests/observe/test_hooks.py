"""Hooks: the calls, their events, and the effect of an exception."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

import pytest

from aiokproto import Broker, Client, Consumer, Producer, TopicPartition
from aiokproto.broker import RequestInfo, Serve
from aiokproto.codec.messages.describe_groups import DescribeGroupsRequest
from aiokproto.codec.messages.end_txn import EndTxnRequest
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataResponse
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.codec.schema import Response
from aiokproto.consumer import ResetReason
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerConnectionError, CommitError, ConfigurationError, TransactionAbortedError
from aiokproto.hooks import (
    NO_HOOKS,
    BatchFailed,
    BatchFetched,
    BatchRetried,
    BatchWritten,
    Committed,
    ConnectionClosed,
    ConnectionFailed,
    ConnectionOpened,
    HookCalls,
    Hooks,
    MetadataRefreshed,
    OffsetReset,
    Rebalanced,
    RecordsDelivered,
    RequestRetried,
    RequestSent,
    ResponseReceived,
    Throttled,
    TransactionBegun,
    TransactionEnded,
    parse_hooks,
)
from aiokproto.interceptors import Interceptor
from aiokproto.types import Record
from tests.observe.recording import Recording
from tests.observe.waiting import until
from tests.timeouts import LONG_TIMEOUT

THROTTLED = Throttled(1, "Produce", 0.5)


class OnlyThrottled(Hooks):
    def __init__(self) -> None:
        self.seen: list[Throttled] = []

    def on_throttled(self, event: Throttled) -> None:
        self.seen.append(event)


def test_only_overridden_methods_are_called() -> None:
    hook = OnlyThrottled()
    calls = HookCalls([hook])
    assert {name for name in HookCalls.__slots__ if getattr(calls, name) is not None} == {"throttled"}
    assert calls.throttled is not None
    calls.throttled(THROTTLED)
    assert hook.seen == [THROTTLED]


def test_without_hooks_nothing_is_called() -> None:
    assert all(getattr(NO_HOOKS, name) is None for name in HookCalls.__slots__)


def test_several_hooks_are_called_in_their_order() -> None:
    order: list[str] = []

    class Named(Hooks):
        def __init__(self, name: str) -> None:
            self.name = name

        def on_throttled(self, event: Throttled) -> None:
            order.append(self.name)

    calls = HookCalls([Named("a"), Named("b")])
    assert calls.throttled is not None
    calls.throttled(THROTTLED)
    assert order == ["a", "b"]


def test_every_event_has_a_method_and_the_reverse() -> None:
    methods = {name.removeprefix("on_") for name in vars(Hooks) if name.startswith("on_")}
    assert methods == set(HookCalls.__slots__)


class Broken(Hooks):
    def on_throttled(self, event: Throttled) -> None:
        raise ValueError("broken")


def test_a_hook_that_raises_is_logged_less_and_less(caplog: pytest.LogCaptureFixture) -> None:
    other = OnlyThrottled()
    calls = HookCalls([Broken(), other])
    assert calls.throttled is not None
    with caplog.at_level(logging.ERROR):
        for _ in range(150):
            calls.throttled(THROTTLED)
    assert [record.args[1] for record in caplog.records if record.args] == [1, 10, 100]  # type: ignore[index]
    assert "Broken.on_throttled" in caplog.text
    assert len(other.seen) == 150


@pytest.mark.parametrize("value", [print, [Hooks(), "x"], Hooks, {"on_throttled": print}])
def test_an_object_not_derived_from_hooks_is_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"hooks=.*derived from Hooks"):
        parse_hooks("hooks", value)


def test_a_mistyped_hook_is_refused_and_other_methods_are_not() -> None:
    class Both(Hooks, Interceptor):
        def on_records(self, records: Sequence[Record]) -> Sequence[Record]:
            return records

        def on_my_own(self) -> None: ...

    class Mistyped(Hooks):
        def on_batch_fialed(self, event: object) -> None: ...

    parse_hooks("hooks", Both())
    with pytest.raises(
        ConfigurationError, match=r"Mistyped\.on_batch_fialed is no hook; did you mean 'on_batch_failed'"
    ):
        parse_hooks("hooks", [Both(), Mistyped()])


def test_a_client_refuses_it_too() -> None:
    with pytest.raises(ConfigurationError, match="hooks="):
        Client(bootstrap_servers="localhost", hooks=print)  # type: ignore[arg-type]


async def test_a_producer_reports_requests_and_batches() -> None:
    hooks = Recording()
    async with Broker() as broker:
        await broker.create_topic("flights", partitions=2)
        async with Producer(
            bootstrap_servers=broker.bootstrap_servers, hooks=hooks, compression_type="gzip"
        ) as producer:
            await producer.send("flights", b"x" * 1000, partition=1)
    (written,) = hooks.of(BatchWritten)
    assert (written.topic, written.partition, written.base_offset, written.records) == ("flights", 1, 0, 1)
    assert written.attempts == 1
    assert written.size < 200 < 1000 < written.uncompressed_size
    assert written.latency >= 0
    sent = [event.api for event in hooks.of(RequestSent)]
    assert sent.count("Produce") == 1
    produce = next(event for event in hooks.of(ResponseReceived) if event.api == "Produce")
    assert produce.error is None
    assert (produce.node, produce.version) == (0, 13)
    assert produce.size > 10
    assert produce.latency >= 0
    assert hooks.of(MetadataRefreshed)[-1].topics == 1
    opened, closed = hooks.of(ConnectionOpened), hooks.of(ConnectionClosed)
    assert len(opened) == len(closed) >= 2
    assert {event.node for event in opened} == {-1, 0}


async def test_every_request_that_was_sent_is_answered_or_reported_as_lost() -> None:
    hooks = Recording()
    async with Broker() as broker:
        client = Client(bootstrap_servers=broker.bootstrap_servers, hooks=hooks)
        async with client:
            await client.metadata()
    sent, received = hooks.of(RequestSent), hooks.of(ResponseReceived)
    assert sorted((event.node, event.api) for event in sent) == sorted((event.node, event.api) for event in received)


async def test_retries_and_failures_of_batches_are_reported() -> None:
    hooks = Recording()
    async with Broker() as broker:
        await broker.create_topic("flights")
        broker.faults.fail(ProduceRequest, ErrorCode.NOT_ENOUGH_REPLICAS, times=1)
        async with Producer(bootstrap_servers=broker.bootstrap_servers, hooks=hooks) as producer:
            await producer.send("flights", b"a")
            broker.faults.fail(ProduceRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED, times=1)
            delivery = await producer.post("flights", b"b")
            assert isinstance(await delivery.outcome(), Exception)
    (retried,) = hooks.of(BatchRetried)
    assert (retried.attempts, retried.error.code.name) == (1, "NOT_ENOUGH_REPLICAS")
    (written,) = hooks.of(BatchWritten)
    assert written.attempts == 2
    (failed,) = hooks.of(BatchFailed)
    assert (failed.records, failed.error.code.name) == (1, "TOPIC_AUTHORIZATION_FAILED")


async def test_a_consumer_reports_fetches_delivery_commits_and_rebalances() -> None:
    hooks = Recording()
    async with Broker() as broker:
        await broker.create_topic("flights")
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send_many("flights", [b"a", b"b", b"c"])
        consumer = Consumer(
            "flights",
            bootstrap_servers=broker.bootstrap_servers,
            group_id="g",
            auto_offset_reset="earliest",
            hooks=hooks,
        )
        async with consumer:
            for _ in range(2):
                await asyncio.wait_for(anext(consumer), LONG_TIMEOUT)
            await consumer.commit()
    (fetched,) = hooks.of(BatchFetched)
    assert (fetched.topic, fetched.partition, fetched.offset, fetched.records) == ("flights", 0, 0, 3)
    (delivered,) = hooks.of(RecordsDelivered)
    assert (delivered.records, delivered.next_offset) == (2, 2), "what was not requested was not delivered"
    assert hooks.of(Committed)[0].error is None
    where = (TopicPartition("flights", 0),)
    assert [(event.kind, event.partitions) for event in hooks.of(Rebalanced)] == [
        ("assigned", where),
        ("revoked", where),
    ]


async def test_a_lost_position_is_reported() -> None:
    hooks = Recording()
    async with Broker() as broker:
        await broker.create_topic("flights")
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send("flights", b"a")
        consumer = Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", hooks=hooks)
        consumer.assign(("flights", 0))
        consumer.seek(("flights", 0), 77)
        async with consumer:
            assert (await asyncio.wait_for(anext(consumer), LONG_TIMEOUT)).offset == 0
    (reset,) = hooks.of(OffsetReset)
    assert reset == OffsetReset("flights", 0, ResetReason.OUT_OF_RANGE.value, 77, 0, -1)


async def test_batches_are_reported_with_their_records() -> None:
    hooks = Recording()
    async with Broker() as broker:
        await broker.create_topic("flights")
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send_many("flights", [b"a", b"b", b"c"])
        consumer = Consumer(
            "flights", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", hooks=hooks
        )
        async with consumer:
            await asyncio.wait_for(anext(consumer.batches()), LONG_TIMEOUT)
            assert consumer.stats().records_delivered == 3
    assert [(event.records, event.next_offset) for event in hooks.of(RecordsDelivered)] == [(3, 3)]


async def test_transactions_are_reported() -> None:
    hooks = Recording()
    async with Broker() as broker:
        await broker.create_topic("flights")
        producer = Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="t", hooks=hooks)
        async with producer:
            async with producer.transaction() as txn:
                await txn.send("flights", b"a")
            async with producer.transaction() as txn:
                await txn.send("flights", b"a")
                await txn.abort()
            stats = producer.stats()
    assert [event.transactional_id for event in hooks.of(TransactionBegun)] == ["t", "t"]
    assert [event.committed for event in hooks.of(TransactionEnded)] == [True, False]
    assert (stats.transactions_committed, stats.transactions_aborted) == (1, 1)


async def test_a_transaction_whose_commit_is_refused_is_reported_as_aborted() -> None:
    hooks = Recording()
    async with Broker() as broker:
        await broker.create_topic("flights")
        producer = Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="t", hooks=hooks)
        async with producer:
            broker.faults.fail(EndTxnRequest, ErrorCode.TRANSACTION_ABORTABLE, times=1)
            with pytest.raises(TransactionAbortedError):
                async with producer.transaction() as txn:
                    await txn.send("flights", b"a")
            stats = producer.stats()
    assert [event.committed for event in hooks.of(TransactionEnded)] == [False]
    assert (stats.transactions_committed, stats.transactions_aborted) == (0, 1)


async def test_a_commit_is_reported_with_the_error_of_a_partition_that_is_not_committed() -> None:
    hooks = Recording()
    async with Broker() as broker:
        await broker.create_topic("flights")
        consumer = Consumer(
            "flights", bootstrap_servers=broker.bootstrap_servers, group_id="g", enable_auto_commit=False, hooks=hooks
        )
        async with consumer:
            await until(lambda: bool(consumer.assignment()))
            await consumer.commit({("flights", 0): 0})
            assert (await consumer.commit({("flights", 0): 0, ("flights", 7): 0})).lost == [("flights", 7)]
            stats = consumer.stats()
    first, second = hooks.of(Committed)
    assert (first.partitions, first.error) == (1, None)
    assert second.partitions == 2
    assert isinstance(second.error, CommitError)
    assert (stats.commit_latency.count, stats.commit_failures) == (1, 1)


async def test_a_throttled_request_is_reported_with_its_wait() -> None:
    hooks = Recording()
    async with Broker() as broker:

        async def throttle(info: RequestInfo, serve: Serve) -> Response | None:
            response = await serve(info.request)
            assert isinstance(response, MetadataResponse)
            response.throttle_time_ms = 30
            return response

        broker.faults.intercept(MetadataRequest, throttle, times=1)
        async with Client(bootstrap_servers=broker.bootstrap_servers, hooks=hooks) as client:
            await client.metadata()
            await client.metadata()
    (throttled,) = hooks.of(Throttled)
    assert (throttled.api, throttled.pause) == ("Metadata", 0.03)


async def test_a_broker_that_cannot_be_reached_is_reported() -> None:
    hooks = Recording()
    client = Client(bootstrap_servers="127.0.0.1:1", hooks=hooks, bootstrap_resolve_timeout_ms=0)
    with pytest.raises(BrokerConnectionError):
        await client.start()
    (failed,) = hooks.of(ConnectionFailed)
    assert (failed.node, failed.channel, failed.attempts) == (-1, "main", 1)


async def test_a_call_that_repeats_its_request_is_reported() -> None:
    hooks = Recording()
    async with Broker() as broker, Client(bootstrap_servers=broker.bootstrap_servers, hooks=hooks) as client:
        broker.faults.fail(FindCoordinatorRequest, ErrorCode.COORDINATOR_NOT_AVAILABLE, times=1)
        await client.request(DescribeGroupsRequest(groups=["g"]))
        assert client.stats().retries == 1
    (retried,) = hooks.of(RequestRetried)
    assert (retried.attempt, retried.error.code.name) == (1, "COORDINATOR_NOT_AVAILABLE")


async def test_a_hook_that_raises_breaks_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Breaks(Hooks):
        pass

    def fail(self: Breaks, event: object) -> None:
        raise ValueError("broken")

    for name in HookCalls.__slots__:
        setattr(Breaks, f"on_{name}", fail)
    async with Broker() as broker:
        await broker.create_topic("flights")
        servers = broker.bootstrap_servers
        async with Producer(bootstrap_servers=servers, hooks=Breaks()) as producer:
            await producer.send("flights", b"a")
        consumer = Consumer(
            "flights", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest", hooks=[Breaks(), Breaks()]
        )
        async with consumer:
            assert (await asyncio.wait_for(anext(consumer), LONG_TIMEOUT)).value == b"a"
    assert "broken" in caplog.text
