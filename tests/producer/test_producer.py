"""The producer's public API: what each call waits for and checks; cancelling, flushing and closing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from aiokproto.codec.messages.produce import ProduceRequest, ProduceResponse
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    BrokerError,
    BufferFullError,
    ClientClosedError,
    ConfigurationError,
    DeadlineError,
    InvalidRecordError,
    MessageTooLargeError,
    UnknownTopicError,
)
from aiokproto.producer import Delivery, Producer, ProducerRecord
from aiokproto.producer.partitioner import key_hash
from aiokproto.records import BatchRecord, encode
from aiokproto.types import RecordMetadata
from tests.net.waiting import until
from tests.producer.fake import FakeCluster, Make
from tests.timeouts import LONG_TIMEOUT


class Gate:
    """Holds requests back until it's opened."""

    def __init__(self, fake: FakeCluster) -> None:
        self.fake = fake
        self.opened = asyncio.Event()
        fake.answer = self.answer

    async def answer(self, node: int, request: ProduceRequest) -> ProduceResponse:
        await self.opened.wait()
        return await self.fake.append(node, request)


async def settle() -> None:
    """Run the loop until no more callbacks are ready."""
    for _ in range(30):
        await asyncio.sleep(0)


# -- options


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"linger": 5}, "unknown option 'linger'; did you mean 'linger_ms'"),
        ({"bootstrap_server": "x:1"}, "did you mean 'bootstrap_servers'"),
        ({"acks": 2}, "acks=2"),
        ({"acks": "some"}, "acks='some'"),
        ({"acks": True}, "acks=True"),
        ({"acks": [1]}, r"acks=\[1\]"),
        ({"acks": 1, "enable_idempotence": True}, 'enable_idempotence=True needs acks="all", not acks=1'),
        ({"enable_idempotence": True, "max_in_flight_requests_per_connection": 6}, "of at most 5, not 6"),
        ({"enable_idempotence": "yes"}, "enable_idempotence='yes'"),
        ({"linger_ms": -1}, "linger_ms=-1"),
        ({"linger_ms": float("nan")}, "linger_ms=nan"),
        ({"linger_ms": 10, "delivery_timeout_ms": 5}, "delivery_timeout_ms=5 is less than linger_ms=10"),
        ({"batch_size": 1.5}, "batch_size=1.5"),
        ({"buffer_memory": 0}, "buffer_memory=0"),
        ({"compression_type": "lzma"}, "compression_type='lzma'"),
        ({"compression_type": "gzip", "compression_level": 17}, "compression_level=17: gzip has no such level"),
        ({"compression_level": 3}, "compression_level=3: there is no compression; set compression_type"),
        ({"partitioner": "murmur3"}, "partitioner='murmur3'"),
        ({"partitioner": lambda key: 0}, r"cannot be called with \(topic, key, value"),
        ({"close_timeout_ms": -1}, "close_timeout_ms=-1"),
        ({"max_in_flight_requests_per_connection": 0}, "max_in_flight_requests_per_connection=0"),
        ({"max_block_ms": None}, "max_block_ms=None"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, Any], text: str) -> None:
    given: dict[str, Any] = {"bootstrap_servers": "127.0.0.1:9", **options}
    with pytest.raises(ConfigurationError, match=text):
        Producer(**given)


async def test_acks_other_than_all_disable_idempotence_that_is_on_by_default(make: Make) -> None:
    fake = FakeCluster()
    fake.producer_id = AssertionError("InitProducerId must not be sent")
    async with make(fake, acks=1) as producer:
        assert (await producer.send("flights", b"v")).offset == 0


async def test_nothing_is_sent_before_start() -> None:
    producer = Producer(bootstrap_servers="127.0.0.1:9")
    with pytest.raises(ClientClosedError, match="not started"):
        await producer.send("flights", b"v")
    await producer.close()


# -- records


@pytest.mark.parametrize(
    ("record", "text"),
    [
        ({"value": "text"}, "value must be bytes, got str; encode it"),
        ({"value": [1, 2]}, "value must be bytes, got list"),
        ({"value": b"", "key": 5}, "key must be bytes, got int"),
        ({"value": b"", "timestamp": 1.5}, "timestamp must be an int, milliseconds since the epoch, got 1.5"),
        ({"value": b"", "timestamp": -1}, r"timestamp must be 0 to 2\*\*63 - 1"),
        ({"value": b"", "headers": {"a": b"1"}}, "headers must be a list or tuple"),
        ({"value": b"", "headers": [(b"a", b"1")]}, "header's key must be str, got bytes"),
        ({"value": b"", "headers": [("a", "1")]}, "header 'a' must be bytes, got str"),
        ({"value": b"", "headers": ["ab"]}, "a header must be a"),
        ({"value": b"", "headers": [("a", b"1"), ("\ud800", b"1")]}, r"header '\\ud800': UTF-8 cannot have the key"),
        ({"value": b"", "partition": 3}, "partition 3 does not exist: topic"),
    ],
)
async def test_a_record_that_cannot_be_sent_says_why(make: Make, record: dict[str, Any], text: str) -> None:
    fake = FakeCluster(partitions=3)
    async with make(fake) as producer:
        for call in (producer.send, producer.post):
            with pytest.raises(InvalidRecordError, match=text):
                await call("flights", **record)
        assert isinstance(await producer.send("flights", b"good"), RecordMetadata)


async def test_a_topic_that_is_not_a_string_is_refused_by_every_call(make: Make) -> None:
    async with make(FakeCluster()) as producer:
        topic: Any = None
        for call in (producer.send, producer.post):
            with pytest.raises(InvalidRecordError, match="topic must be a str, got None"):
                await call(topic, b"v")
        with pytest.raises(InvalidRecordError, match="topic must be a str, got None"):
            producer.try_post(topic, b"v")


async def test_a_buffer_is_copied(make: Make) -> None:
    fake = FakeCluster()
    async with make(fake) as producer:
        buffer = bytearray(b"before")
        delivery = await producer.post("flights", buffer)  # type: ignore[arg-type]
        buffer[:] = b"after!"
        await delivery
    assert fake.logs[0].values == [b"before"]


async def test_keys_are_placed_by_murmur2(make: Make) -> None:
    fake = FakeCluster(partitions=7)
    async with make(fake) as producer:
        for number in range(30):
            key = b"key-%d" % number
            assert (await producer.send("flights", b"", key=key)).partition == key_hash(key) % 7


async def test_a_custom_partitioner_is_called_once_per_record(make: Make) -> None:
    calls: list[tuple[object, ...]] = []

    def mine(
        topic: str, key: bytes | None, value: bytes | None, partitions: Sequence[int], available: Sequence[int]
    ) -> int:
        calls.append((topic, key, value, list(partitions), list(available)))
        return int(value or b"0")

    fake = FakeCluster(partitions=3)
    async with make(fake, partitioner=mine) as producer:
        assert (await producer.send("flights", b"2", key=b"k")).partition == 2
        assert calls == [("flights", b"k", b"2", [0, 1, 2], [0, 1, 2])]
        with pytest.raises(InvalidRecordError, match="the partitioner's partition 5 does not exist: topic"):
            await producer.send("flights", b"5")
        assert (await producer.send("flights", b"5", partition=1)).partition == 1
    assert len(calls) == 2


async def test_a_record_that_is_too_large_is_refused_before_it_is_buffered(make: Make) -> None:
    fake = FakeCluster()
    async with make(fake, max_request_size=1000) as producer:
        with pytest.raises(MessageTooLargeError, match="max_request_size is 1000"):
            await producer.send("flights", b"x" * 1000)
    assert fake.requests == []


async def test_an_unknown_topic_raises_from_the_call(make: Make) -> None:
    async with make(FakeCluster()) as producer:
        with pytest.raises(UnknownTopicError):
            await producer.post("trains", b"v")
        assert isinstance((await producer.send_many("trains", [b"a", b"b"]))[1], UnknownTopicError)


# -- deliveries


async def test_a_delivery_can_be_awaited_by_many_tasks_and_repeatedly(make: Make) -> None:
    fake = FakeCluster()
    gate = Gate(fake)
    async with make(fake) as producer:
        delivery = await producer.post("flights", b"v")
        assert not delivery.done()
        with pytest.raises(asyncio.InvalidStateError):
            delivery.result()

        async def wait() -> RecordMetadata:
            return await delivery

        one, two = asyncio.create_task(wait()), asyncio.create_task(wait())
        await settle()
        one.cancel()
        await settle()
        assert one.cancelled()
        gate.opened.set()
        assert (await two).offset == 0
        assert await delivery == delivery.result()
        assert delivery.exception() is None


async def test_a_delivery_works_wherever_asyncio_takes_awaitables(make: Make) -> None:
    fake = FakeCluster()
    async with make(fake) as producer:
        for done in (False, True):
            fake.fail_next(ErrorCode.INVALID_REQUIRED_ACKS)
            failing = await producer.post("flights", b"f")
            if done:
                await producer.flush()
            with pytest.raises(BrokerError):
                await asyncio.gather(failing)
            delivery = await producer.post("flights", b"v")
            if done:
                await producer.flush()
            assert delivery.done() == done
            found = [
                *await asyncio.gather(delivery, delivery),
                await asyncio.wait_for(delivery, LONG_TIMEOUT),
                await asyncio.shield(delivery),
                await asyncio.ensure_future(delivery),
            ]
            assert found == [delivery.result()] * 5


async def test_send_many_gives_one_outcome_for_each_in_order(make: Make) -> None:
    fake = FakeCluster(partitions=2)
    async with make(fake) as producer:
        outcomes = await producer.send_many(
            "flights",
            [b"a", ProducerRecord(b"b", partition=1, timestamp=9), "c", ProducerRecord(None, key=b"k")],  # type: ignore[list-item]
            partition=0,
        )
    assert outcomes[1] == RecordMetadata("flights", 1, 0, 9)
    assert isinstance(outcomes[2], InvalidRecordError)
    assert [getattr(outcome, "partition", None) for outcome in outcomes] == [0, 1, None, 0]
    assert fake.logs[0].values == [b"a", None]


async def test_an_unobserved_failure_is_counted(make: Make, caplog: pytest.LogCaptureFixture) -> None:
    fake = FakeCluster()
    fake.fail_next(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    async with make(fake) as producer:
        await producer.post("flights", b"v")
        await producer.flush()
        assert producer.unobserved_failures == 1
    assert [record.levelname for record in caplog.records] == ["ERROR"]


# -- threads and event loops


Use = Callable[[Producer], Awaitable[object]]
USES: dict[str, Use] = {
    "send": lambda producer: producer.send("flights", b"x"),
    "post": lambda producer: producer.post("flights", b"x"),
    "send_many": lambda producer: producer.send_many("flights", [b"x"]),
    "send_batch": lambda producer: producer.send_batch("flights", encode([BatchRecord(0, 0, None, b"x")]), partition=0),
    "partitions_for": lambda producer: producer.partitions_for("flights"),
    "flush": lambda producer: producer.flush(),
    "close": lambda producer: producer.close(),
}


@pytest.mark.parametrize("name", USES)
async def test_another_event_loop_is_refused_at_once(make: Make, name: str) -> None:
    fake = FakeCluster()
    async with make(fake, linger_ms=60_000) as producer:
        # The open batch would take another record at once.
        pending = await producer.post("flights", b"first")

        async def use() -> None:
            with pytest.raises(ConfigurationError, match="started in another event loop"):
                await USES[name](producer)
            with pytest.raises(ConfigurationError, match="started in another event loop"):
                producer.try_post("flights", b"x")
            with pytest.raises(ConfigurationError, match="another event loop than the producer's"):
                await pending

        def elsewhere() -> None:
            asyncio.run(use())
            with pytest.raises(ConfigurationError, match="started in another event loop"):
                producer.try_post("flights", b"x")

        await asyncio.to_thread(elsewhere)
        await asyncio.get_running_loop().shutdown_default_executor()
        await producer.flush()
    assert fake.logs[0].values == [b"first"]


# -- room


async def test_posts_wait_for_buffer_memory_in_order(make: Make) -> None:
    fake = FakeCluster()
    gate = Gate(fake)
    async with make(fake, buffer_memory=5000, batch_size=0) as producer:
        for _ in range(4):
            await producer.post("flights", b"x" * 1000)
        with pytest.raises(BufferFullError, match="of buffer_memory=5000 bytes are in use"):
            producer.try_post("flights", b"x" * 1000)
        waiting = [asyncio.create_task(producer.post("flights", b"%d" % n + b"x" * 999)) for n in range(3)]
        await settle()
        assert not any(task.done() for task in waiting)
        gate.opened.set()
        for delivery in await asyncio.gather(*waiting):
            await delivery
    assert [(value or b"")[:1] for value in fake.logs[0].values[4:]] == [b"0", b"1", b"2"]


async def test_buffer_memory_not_free_in_time_is_an_error(make: Make) -> None:
    fake = FakeCluster()
    Gate(fake)
    async with make(fake, buffer_memory=2000, max_block_ms=20) as producer:
        await producer.post("flights", b"x" * 1500)
        with pytest.raises(DeadlineError, match=r"no memory free within max_block_ms=20: \d+ of buffer_memory=2000"):
            await producer.post("flights", b"x" * 1500)


async def test_try_post_needs_metadata(make: Make) -> None:
    fake = FakeCluster()
    async with make(fake) as producer:
        with pytest.raises(BufferFullError, match="partitions_for"):
            producer.try_post("flights", b"v")
        assert await producer.partitions_for("flights") == 1
        delivery = producer.try_post("flights", b"v")
        assert isinstance(delivery, Delivery)
        assert (await delivery).offset == 0


async def test_a_task_that_never_waits_lets_others_run(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiokproto.producer.buffer.MAX_LOOP_HOLD", -1)
    fake = FakeCluster()
    async with make(fake, batch_size=1000) as producer:
        delivery = await producer.post("flights", b"x" * 500)
        posted = 0
        while not delivery.done():
            await producer.post("flights", b"x" * 500)
            posted += 1
        assert posted < 30_000
        await producer.flush()


# -- cancelling


async def test_a_record_cancelled_before_it_is_buffered_is_never_sent(make: Make) -> None:
    fake = FakeCluster()
    gate = Gate(fake)
    async with make(fake, buffer_memory=2000) as producer:
        first = await producer.post("flights", b"x" * 1500)
        blocked = asyncio.create_task(producer.send("flights", b"y" * 1500))
        await settle()
        blocked.cancel()
        await settle()
        assert blocked.cancelled()
        gate.opened.set()
        await first
        assert (await producer.send("flights", b"z")).offset == 1
    assert fake.logs[0].values[1:] == [b"z"]


async def test_a_record_cancelled_after_it_is_buffered_is_delivered(make: Make) -> None:
    fake = FakeCluster()
    gate = Gate(fake)
    async with make(fake) as producer:
        sending = asyncio.create_task(producer.send("flights", b"v"))
        await until(lambda: fake.requests)
        sending.cancel()
        await settle()
        assert sending.cancelled()
        gate.opened.set()
        await producer.flush()
    assert fake.logs[0].values == [b"v"]


async def test_cancelling_flush_changes_nothing(make: Make) -> None:
    fake = FakeCluster()
    gate = Gate(fake)
    async with make(fake) as producer:
        delivery = await producer.post("flights", b"v")
        flushing = asyncio.create_task(producer.flush())
        await settle()
        flushing.cancel()
        await settle()
        assert flushing.cancelled()
        gate.opened.set()
        assert (await delivery).offset == 0


# -- flush and close


async def test_flush_does_not_linger_and_leaves_outcomes_to_the_deliveries(make: Make) -> None:
    fake = FakeCluster()
    async with make(fake, linger_ms=60_000) as producer:
        delivery = await producer.post("flights", b"v")
        await producer.flush()
        assert delivery.done()
        fake.fail_next(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        failed = await producer.post("flights", b"w")
        await producer.flush()
        assert failed.exception() is not None


async def test_flush_keeps_its_deadline(make: Make) -> None:
    fake = FakeCluster()
    gate = Gate(fake)
    async with make(fake) as producer:
        delivery = await producer.post("flights", b"v")
        with pytest.raises(DeadlineError, match=r"flush: 1 record \(flights-0: 1\) without outcome after 10 ms"):
            await producer.flush(timeout_ms=10)
        gate.opened.set()
        assert (await delivery).offset == 0, "a flush that timed out loses no record"


async def test_close_delivers_what_is_buffered(make: Make) -> None:
    fake = FakeCluster()
    async with make(fake, linger_ms=60_000) as producer:
        delivery = await producer.post("flights", b"v")
        await producer.close()
        assert (await delivery).offset == 0
        assert fake.closed
        with pytest.raises(ClientClosedError, match="the producer is closed"):
            await producer.send("flights", b"w")
        with pytest.raises(ClientClosedError):
            producer.try_post("flights", b"w")
        await producer.close()


async def test_close_without_a_live_broker_ends_and_reports_lost_records(make: Make) -> None:
    fake = FakeCluster(partitions=2)
    async with make(fake) as producer:
        await producer.send("flights", b"v", partition=0)
        fake.down = {0}
        lost = [await producer.post("flights", b"w", partition=number % 2) for number in range(3)]
        await settle()
        with pytest.raises(
            DeadlineError, match=r"closed with 3 records .*flights-0: 2 .*last: broker 0.* not delivered"
        ):
            await producer.close(timeout_ms=20)
        for delivery in lost:
            with pytest.raises(ClientClosedError, match="not delivered before the producer was closed"):
                await delivery


async def test_close_fails_calls_that_wait_for_buffer_memory(make: Make) -> None:
    fake = FakeCluster()
    gate = Gate(fake)
    async with make(fake, buffer_memory=2000) as producer:
        await producer.post("flights", b"x" * 1500)
        blocked = asyncio.create_task(producer.send("flights", b"y" * 1500))
        await settle()
        closing = asyncio.create_task(producer.close())
        with pytest.raises(ClientClosedError):
            await blocked
        gate.opened.set()
        await closing


async def test_cancelling_close_still_closes(make: Make) -> None:
    fake = FakeCluster()
    Gate(fake)
    async with make(fake) as producer:
        delivery = await producer.post("flights", b"x")
        closing = asyncio.create_task(producer.close())
        await settle()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert fake.closed
        assert isinstance(delivery.exception(), ClientClosedError)


async def test_an_error_inside_the_with_block_is_not_hidden_by_lost_records(
    make: Make, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fake = FakeCluster()
    fake.down = {0}
    monkeypatch.setattr("aiokproto.producer.producer.ClusterClient", lambda config, last_used: fake)

    async def block(error: Exception | None) -> None:
        async with Producer(bootstrap_servers="127.0.0.1:9", delivery_timeout_ms=30, linger_ms=0) as producer:
            await producer.post("flights", b"x")
            if error is not None:
                raise error

    with pytest.raises(DeadlineError, match=r"closed with 1 record \(flights-0: 1 .*\) not delivered"):
        await block(None)
    with pytest.raises(ZeroDivisionError):
        await block(ZeroDivisionError())
    assert "closed with 1 record" in caplog.text


async def test_a_start_that_fails_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeCluster()

    async def fail() -> None:
        raise DeadlineError("no broker reachable")

    monkeypatch.setattr(fake, "start", fail)
    monkeypatch.setattr("aiokproto.producer.producer.ClusterClient", lambda config, last_used: fake)
    producer = Producer(bootstrap_servers="127.0.0.1:9")
    with pytest.raises(DeadlineError, match="no broker reachable"):
        await producer.start()
    assert fake.closed
    with pytest.raises(ClientClosedError):
        await producer.post("flights", b"x")


def test_the_types_of_a_record_can_be_named_at_run_time() -> None:
    record = ProducerRecord[str, int](3, "k")
    assert type(record) is ProducerRecord
    assert record == (3, "k", (), None, None)
    assert ProducerRecord[str, int].__args__ == (str, int)  # type: ignore[attr-defined]
