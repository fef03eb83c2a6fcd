"""What is awaited for every record behaves as a coroutine does, in either form."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Coroutine
from threading import get_ident
from typing import Any

import pytest

from aiokproto.consumer.delivery import DeliveryState
from aiokproto.errors import BrokerError, KafkaError
from aiokproto.producer.accumulator import Accumulator
from aiokproto.producer.limits import BufferLimits
from aiokproto.producer.record import PendingRecord
from aiokproto.types import Record, RecordMetadata
from tests.accelerator.forms import each_form
from tests.patience import PATIENCE
from tests.producer.sticky import lowest

HANDING = "aiokproto.consumer.delivery"
LIMITS = BufferLimits(
    batch_size=1000, buffer_memory=1 << 20, max_request_size=1 << 20, linger=1.0, delivery_timeout=10.0, in_flight=5
)


def record(offset: int) -> Record:
    return Record("flights", 0, offset, 1000, None, b"value")


class Source:
    """Records to deliver, and what there is to fill it with."""

    def __init__(self, *offsets: int) -> None:
        self.delivery: Any = DeliveryState()
        self.delivery.open = [record(offset) for offset in reversed(offsets)]
        self.filled = asyncio.Event()
        self.waiting = 0

    def read_by(self, form: Any) -> Any:
        return form(self.delivery, self.more)

    async def more(self) -> None:
        self.waiting += 1
        try:
            await self.filled.wait()
        finally:
            self.waiting -= 1

    def fill(self, *offsets: int) -> None:
        self.delivery.open = [record(offset) for offset in reversed(offsets)]
        self.filled.set()


@pytest.mark.parametrize("form", each_form(HANDING, "RecordIterator"))
async def test_records_are_returned_one_by_one_and_stay_unfinished(form: Any) -> None:
    source = Source(1, 2)
    records = source.read_by(form)
    assert (await records.__anext__()).offset == 1
    assert source.delivery.current.offset == 1
    waiting = asyncio.create_task(take(records, 2))
    while not source.waiting:
        await asyncio.sleep(0)
    assert source.delivery.current.offset == 2
    source.fill(3)
    assert [one.offset for one in await waiting] == [2, 3]


async def take(records: Any, count: int) -> list[Record]:
    found: list[Record] = []
    async for one in records:
        found.append(one)
        if len(found) == count:
            break
    return found


@pytest.mark.parametrize("form", each_form(HANDING, "RecordIterator"))
async def test_nothing_is_taken_before_it_is_awaited(form: Any) -> None:
    source = Source(1)
    records = source.read_by(form)
    call = records.__anext__()
    assert source.delivery.current is None
    call.close()
    assert (await records.__anext__()).offset == 1


@pytest.mark.parametrize("form", each_form(HANDING, "RecordIterator"))
async def test_two_calls_at_once_are_two(form: Any) -> None:
    records = Source(1, 2).read_by(form)
    first, second = records.__anext__(), records.__anext__()
    assert [(await second).offset, (await first).offset] == [1, 2]


@pytest.mark.parametrize("form", each_form(HANDING, "RecordIterator"))
async def test_cancelling_takes_none(form: Any) -> None:
    source = Source()
    records = source.read_by(form)
    task = asyncio.ensure_future(records.__anext__())
    while not source.waiting:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not source.waiting
    source.fill(7)
    assert (await asyncio.wait_for(records.__anext__(), PATIENCE)).offset == 7


@pytest.mark.parametrize("form", each_form(HANDING, "RecordIterator"))
async def test_what_filling_raises_comes_out(form: Any) -> None:
    source = Source()

    async def broken() -> None:
        await asyncio.sleep(0)
        raise KafkaError("no more")

    records = form(source.delivery, broken)
    with pytest.raises(KafkaError, match="no more"):
        await records.__anext__()
    with pytest.raises(KafkaError, match="no more"):
        await records.__anext__()
    # What came by another way, such as poll(), is not lost.
    source.fill(1, 2)
    assert [one.offset for one in await take(records, 2)] == [1, 2]


@pytest.mark.parametrize("form", each_form(HANDING, "RecordIterator"))
async def test_a_call_is_a_coroutine(form: Any) -> None:
    source = Source(1, 2, 3)
    records = source.read_by(form)
    call = records.__anext__()
    assert isinstance(call, Coroutine)
    assert asyncio.iscoroutine(call)
    assert (await asyncio.create_task(call)).offset == 1
    with pytest.raises(RuntimeError, match="already awaited"):
        await call
    call = records.__anext__()
    with pytest.raises(TypeError, match="just-started"):
        call.send(1)
    with pytest.raises(StopIteration) as stop:
        call.send(None)
    assert stop.value.value.offset == 2
    call = records.__anext__()
    with pytest.raises(KeyError, match="thrown"):
        call.throw(KeyError("thrown"))
    with pytest.raises(RuntimeError, match="already awaited"):
        call.send(None)
    assert (await records.__anext__()).offset == 3


@pytest.mark.parametrize("form", each_form(HANDING, "RecordIterator"))
async def test_a_call_that_is_never_awaited_is_a_warning(form: Any) -> None:
    source = Source(1)
    with pytest.warns(RuntimeWarning, match="was never awaited"):
        # The iterator goes, too: it keeps the call, to use it again.
        source.read_by(form).__anext__()


def batches() -> tuple[Any, Any]:
    accumulator = Accumulator(LIMITS, sticky=lowest())
    queues = accumulator.update("flights", [0], 0.0)
    added = accumulator.append(queues, 0, 1000, None, b"value", (), 0.0)
    assert added is not None
    return accumulator, added[0]


@pytest.mark.parametrize("form", each_form("aiokproto.producer.delivery", "Delivery"))
async def test_a_delivery_is_awaited_by_many_and_again(form: Any) -> None:
    accumulator, batch = batches()
    delivery = form(batch.outcome, 0, 1000)
    waiting = [asyncio.ensure_future(delivery) for _ in range(3)]
    await asyncio.sleep(0)
    assert not delivery.done()
    with pytest.raises(asyncio.InvalidStateError):
        delivery.result()
    waiting[0].cancel()
    await asyncio.sleep(0)
    accumulator.complete(batch, 41)
    where = RecordMetadata("flights", 0, 41, 1000)
    assert await asyncio.gather(*waiting[1:]) == [where, where]
    assert waiting[0].cancelled()
    assert [await delivery, await delivery.outcome(), delivery.result()] == [where] * 3
    assert isinstance(await delivery, RecordMetadata)
    assert delivery.exception() is None
    assert repr(delivery) == "<Delivery done: record 0 of 1 record for flights-0>"


@pytest.mark.parametrize("form", each_form("aiokproto.producer.delivery", "Delivery"))
async def test_a_failed_delivery_raises_each_time(form: Any) -> None:
    accumulator, batch = batches()
    delivery = form(batch.outcome, 0, 1000)
    error = BrokerError(1, "flights-0")
    accumulator.fail(batch, error)
    for _ in range(2):
        with pytest.raises(BrokerError) as raised:
            await delivery
        assert raised.value is error
    assert await delivery.outcome() is error
    assert delivery.exception() is error


@pytest.mark.parametrize("form", each_form("aiokproto.producer.delivery", "BatchSlice"))
@pytest.mark.parametrize("append_time", [-1, 5000])
async def test_a_run_has_a_result_for_each(form: Any, append_time: int) -> None:
    accumulator, batch = batches()
    for _ in range(3):
        assert batch.append(1000, None, b"value", ()) is not None
    run = form(batch.outcome, 1, 3, 1000)
    accumulator.complete(batch, 40, append_time)
    timestamp = 1000 if append_time < 0 else append_time
    expected = [RecordMetadata("flights", 0, offset, timestamp) for offset in (41, 42, 43)]
    assert run.results() == expected
    assert [run[place] for place in range(3)] == expected
    assert (run.count, run.outcome) == (3, batch.outcome)


@pytest.mark.parametrize("form", each_form("aiokproto.producer.delivery", "BatchSlice"))
async def test_a_run_of_a_failed_batch_has_its_errors(form: Any) -> None:
    accumulator, batch = batches()
    assert batch.append(1000, None, b"value", ()) is not None
    why, special = KafkaError("why"), KafkaError("special")
    accumulator.fail(batch, why, {1: special})
    assert form(batch.outcome, 0, 2, 1000).results() == [why, special]


def appender(form: Any, append_later: Callable[[PendingRecord], Any]) -> Any:
    class Appender(form):  # type: ignore[misc]
        async def _append_later(self, record: PendingRecord) -> Any:
            return await append_later(record)

    return Appender(None)


class Posts:
    """A producer's part that takes records, on an accumulator."""

    def __init__(self, form: Any) -> None:
        self.accumulator = Accumulator(LIMITS, sticky=lowest())
        self.waited: list[PendingRecord] = []
        self.room = asyncio.Event()
        self.poster = appender(form, self.append_later)
        self.poster._thread = get_ident()

    async def append_later(self, record: PendingRecord) -> Any:
        self.waited.append(record)
        await self.room.wait()
        return "appended"

    def open(self) -> Any:
        queues = self.accumulator.update("flights", [0], 0.0)
        self.poster._set_ready("flights", queues)
        added = self.accumulator.append(queues, 0, 1000, None, b"first", (), 0.0)
        assert added is not None
        return added[0]


@pytest.mark.parametrize("form", each_form("aiokproto.producer.appender", "RecordAppender"))
async def test_a_post_is_written_when_it_is_awaited(form: Any) -> None:
    posts = Posts(form)
    batch = posts.open()
    call = posts.poster.post("flights", b"value", key=None, headers=[("h", b"1")], timestamp=5)
    assert batch.count == 1
    delivery = await call
    assert batch.count == 2
    assert delivery.timestamp == 5
    assert not posts.waited


@pytest.mark.parametrize("form", each_form("aiokproto.producer.appender", "RecordAppender"))
async def test_a_post_without_room_waits_and_can_be_cancelled(form: Any) -> None:
    posts = Posts(form)
    first = asyncio.create_task(posts.poster.post("unknown", b"value", key=b"k"))
    second = asyncio.ensure_future(posts.poster.post("unknown", None))
    while len(posts.waited) < 2:
        await asyncio.sleep(0)
    assert [(one.topic, one.key, one.value) for one in posts.waited] == [
        ("unknown", b"k", b"value"),
        ("unknown", None, None),
    ]
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    posts.room.set()
    assert await second == "appended"


@pytest.mark.parametrize("form", each_form("aiokproto.producer.appender", "RecordAppender"))
async def test_bad_records_are_refused_by_the_await(form: Any) -> None:
    poster = Posts(form).poster
    for value, options in (
        ("text", {}),
        (b"", {"key": 1}),
        (b"", {"timestamp": -1}),
        (b"", {"headers": [("h",)]}),
    ):
        with pytest.raises(KafkaError, match="must be"):
            await poster.post("flights", value, **options)


@pytest.mark.parametrize("form", each_form("aiokproto.producer.appender", "RecordAppender"))
async def test_a_post_that_is_forgotten_is_complained_of(form: Any) -> None:
    posts = Posts(form)
    batch = posts.open()
    with pytest.warns(RuntimeWarning, match="never awaited"):
        posts.poster.post("flights", b"value")
    assert batch.count == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        posts.poster.post("flights", b"value").close()


@pytest.mark.parametrize("form", each_form("aiokproto.producer.appender", "RecordAppender"))
async def test_a_run_ends_where_a_batch_is_full_or_a_record_is_odd(form: Any) -> None:
    posts = Posts(form)
    batch = posts.open()
    values: list[object] = [b"one", b"two", bytearray(b"three"), b"four"]
    run = posts.poster._append_run("flights", values, 0)
    assert (run.count, batch.count) == (2, 3)
    assert posts.poster._append_run("flights", values, 2) is None
    full = posts.poster._append_run("flights", [bytes(100)] * 50, 0)
    assert 0 < full.count < 50
    assert posts.poster._append_run("unknown", values, 0) is None
