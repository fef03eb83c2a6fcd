"""Interceptors: what they see, what they may change, and what an exception does."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

import pytest

from aiokproto import Broker, Consumer, Producer, Record
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BufferFullError, ConfigurationError, InvalidRecordError, KafkaError
from aiokproto.interceptors import Interceptor, OutgoingRecord, parse_interceptors
from aiokproto.producer import ProducerRecord
from aiokproto.types import RecordMetadata
from tests.timeouts import LONG_TIMEOUT


class Tagging(Interceptor):
    """Adds a header, and keeps what it is called with."""

    def __init__(self, tag: str = "tag") -> None:
        self.tag = tag
        self.acknowledged: list[tuple[bytes | None, int | None, str]] = []
        self.received: list[list[int]] = []

    def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
        record.context[self] = len(record.headers)
        return replace(record, headers=[*record.headers, (self.tag, b"1")])

    def on_acknowledgement(
        self, record: OutgoingRecord, metadata: RecordMetadata | None, error: KafkaError | None
    ) -> None:
        assert self in record.context, "the same record as in on_send, or a copy of it"
        offset = None if metadata is None else metadata.offset
        self.acknowledged.append((record.value, offset, type(error).__name__))

    def on_records(self, records: Sequence[Record]) -> Sequence[Record]:
        self.received.append([record.offset for record in records])
        return [record for record in records if record.value != b"drop"]


async def consumed(broker: Broker, count: int, interceptors: Interceptor | None = None) -> list[Record]:
    consumer = Consumer(
        "flights",
        bootstrap_servers=broker.bootstrap_servers,
        auto_offset_reset="earliest",
        interceptors=interceptors,
    )
    async with consumer:
        return [await asyncio.wait_for(anext(consumer), LONG_TIMEOUT) for _ in range(count)]


async def test_every_way_to_write_a_record_is_intercepted() -> None:
    seen = Tagging()
    async with Broker() as broker:
        await broker.create_topic("flights")
        producer = Producer(bootstrap_servers=broker.bootstrap_servers, interceptors=seen)
        async with producer:
            await producer.send("flights", b"send", headers=[("own", b"0")])
            await (await producer.post("flights", b"post"))
            await producer.try_post("flights", b"try_post")
            await producer.send_many("flights", [b"many", b"more", b"most", ProducerRecord(b"last", key=b"k")])
        records = await consumed(broker, 7)
    assert [record.value for record in records] == [b"send", b"post", b"try_post", b"many", b"more", b"most", b"last"]
    assert [[name for name, _ in record.headers] for record in records] == [["own", "tag"], *[["tag"]] * 6]
    assert seen.acknowledged == [(record.value, record.offset, "NoneType") for record in records]


async def test_tables_are_written_and_not_intercepted() -> None:
    pyarrow = pytest.importorskip("pyarrow")
    seen = Tagging()
    # Several batches: each of them begins with a row that waits for it.
    values = [bytes([number]) * 10_000 for number in range(50)]
    async with Broker() as broker:
        await broker.create_topic("flights")
        async with Producer(bootstrap_servers=broker.bootstrap_servers, interceptors=seen) as producer:
            outcomes = await producer.send_many("flights", pyarrow.table({"value": values}))
            assert [one for one in outcomes if isinstance(one, KafkaError)] == []
        assert [record.value for record in await consumed(broker, 50)] == values
    assert seen.acknowledged == []


async def test_records_of_a_transaction_are_intercepted() -> None:
    seen = Tagging()
    async with Broker() as broker:
        await broker.create_topic("flights")
        producer = Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="t", interceptors=seen)
        async with producer, producer.transaction() as txn:
            await txn.post("flights", b"a")
        (record,) = await consumed(broker, 1)
    assert [name for name, _ in record.headers] == ["tag"]
    assert seen.acknowledged == [(b"a", 0, "NoneType")]


async def test_interceptors_are_called_in_their_order_and_may_change_anything() -> None:
    class Elsewhere(Interceptor):
        def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
            names = [name for name, _ in record.headers]
            return replace(record, value=b",".join(name.encode() for name in names), partition=2)

    async with Broker() as broker:
        await broker.create_topic("flights", partitions=3)
        producer = Producer(
            bootstrap_servers=broker.bootstrap_servers, interceptors=[Tagging("a"), Tagging("b"), Elsewhere()]
        )
        async with producer:
            assert (await producer.send("flights", b"x", partition=0)).partition == 2
        (record,) = await consumed(broker, 1)
    assert record.value == b"a,b"


async def test_failures_are_reported_once_wherever_they_happen() -> None:
    seen = Tagging()
    async with Broker() as broker:
        await broker.create_topic("flights")
        broker.faults.fail(ProduceRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        producer = Producer(bootstrap_servers=broker.bootstrap_servers, interceptors=seen)
        async with producer:
            with pytest.raises(BufferFullError):
                producer.try_post("flights", b"unknown")
            with pytest.raises(InvalidRecordError):
                await producer.send("flights", "text")  # type: ignore[arg-type]
            with pytest.raises(KafkaError):
                await producer.send("flights", b"refused")
    assert [(value, kind) for value, _, kind in seen.acknowledged] == [
        (b"unknown", "BufferFullError"),
        ("text", "InvalidRecordError"),
        (b"refused", "AuthorizationError"),
    ]


async def test_a_cancelled_post_is_acknowledged_with_an_error() -> None:
    seen = Tagging()
    async with Broker() as broker:
        producer = Producer(bootstrap_servers=broker.bootstrap_servers, interceptors=seen)
        async with producer:
            # Its topic's metadata is not known yet, so it waits.
            call = asyncio.create_task(producer.send("flights", b"a"))
            await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
    assert seen.acknowledged == [(b"a", None, "KafkaError")]


async def test_a_failure_that_only_an_interceptor_has_seen_is_still_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with Broker() as broker:
        await broker.create_topic("flights")
        broker.faults.fail(ProduceRequest, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        async with Producer(bootstrap_servers=broker.bootstrap_servers, interceptors=Tagging()) as producer:
            await producer.post("flights", b"a")
            await producer.flush()
            assert producer.unobserved_failures == 1
    assert "no task awaited them" in caplog.text


async def test_delivered_records_are_intercepted_in_order_and_can_be_left_out() -> None:
    seen = Tagging()
    async with Broker() as broker:
        await broker.create_topic("flights")
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send_many("flights", [b"a", b"drop", b"c"])
            await producer.send("flights", b"drop")
            await producer.send("flights", b"e")
        records = await consumed(broker, 3, seen)
    assert [record.offset for record in records] == [0, 2, 4]
    assert [offset for batch in seen.received for offset in batch] == [0, 1, 2, 3, 4]


async def test_poll_is_intercepted_too() -> None:
    seen = Tagging()
    async with Broker() as broker:
        await broker.create_topic("flights")
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for value in (b"a", b"drop", b"c"):
                await producer.send("flights", value)
        consumer = Consumer(
            "flights", bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest", interceptors=seen
        )
        async with consumer:
            values: list[bytes | None] = []
            while len(values) < 2:
                values += [record.value for record in await consumer.poll(timeout_ms=LONG_TIMEOUT * 1000)]
            assert values == [b"a", b"c"]
            assert await consumer.position(("flights", 0)) == 3


async def test_an_interceptor_that_raises_is_logged_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Interceptor):
        def on_send(self, record: OutgoingRecord) -> OutgoingRecord:
            raise ValueError("on_send")

        def on_acknowledgement(
            self, record: OutgoingRecord, metadata: RecordMetadata | None, error: KafkaError | None
        ) -> None:
            raise ValueError("on_acknowledgement")

        def on_records(self, records: Sequence[Record]) -> Sequence[Record]:
            raise ValueError("on_records")

    async with Broker() as broker:
        await broker.create_topic("flights")
        with caplog.at_level(logging.ERROR):
            async with Producer(bootstrap_servers=broker.bootstrap_servers, interceptors=Broken()) as producer:
                await producer.send("flights", b"a")
            (record,) = await consumed(broker, 1, Broken())
    assert record.value == b"a"
    for method in ("on_send", "on_acknowledgement", "on_records"):
        assert f"ValueError('{method}')" in caplog.text


@pytest.mark.parametrize("value", [print, [Interceptor(), "x"]])
def test_what_is_not_derived_from_interceptor_is_refused(value: object) -> None:
    with pytest.raises(ConfigurationError, match=r"interceptors=.*derived from Interceptor"):
        parse_interceptors("interceptors", value)
