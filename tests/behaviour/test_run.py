"""A handler called for each record, on the embedded broker and on real Kafka: `Consumer.run`."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aiokproto import Consumer, ExactlyOnce, Producer
from aiokproto.consumer import PermanentError, Retry, RetryTopics, RunStatus, RunSummary
from aiokproto.errors import ConfigurationError
from aiokproto.types import Record, TopicPartition
from tests.behaviour.feed import fill
from tests.clusters import BehaviourCluster
from tests.timeouts import LONG_TIMEOUT

Place = tuple[int, int]

QUICK: dict[str, Any] = {"heartbeat_interval_ms": 100, "auto_offset_reset": "earliest"}


def member(cluster: BehaviourCluster, *topics: str, **options: Any) -> Consumer[Any, Any]:
    return Consumer(
        *topics, bootstrap_servers=cluster.bootstrap_servers, group_id=f"{topics[0]}-group", **QUICK | options
    )


def place(record: Record) -> Place:
    return record.partition, record.offset


async def committed(cluster: BehaviourCluster, topic: str, partitions: int = 1) -> list[int | None]:
    everything = [TopicPartition(topic, number) for number in range(partitions)]
    async with Consumer(bootstrap_servers=cluster.bootstrap_servers, group_id=f"{topic}-group") as consumer:
        found = await consumer.committed(*everything)
    return [position.offset if (position := found[each]) else None for each in everything]


async def produce(cluster: BehaviourCluster, topic: str, *records: tuple[bytes | None, bytes]) -> None:
    """Write keys and values to partition 0."""
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for key, value in records:
            await producer.send(topic, value, key=key, partition=0)


class Handler:
    """Records what it was called with, and ends the run after some records; what is in ``gates`` waits."""

    def __init__(self, consumer: Consumer, count: int) -> None:
        self.seen: list[Record] = []
        self.gates: dict[object, asyncio.Event] = defaultdict(_open)
        self.running = self.most = 0
        self.began = asyncio.Event()
        self._consumer = consumer
        self._count = count

    async def __call__(self, record: Record) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        self.began.set()
        try:
            await asyncio.sleep(0)
            for name in (record.offset, record.key):
                await self.gates[name].wait()
        finally:
            self.running -= 1
        self.seen.append(record)
        if len(self.seen) == self._count:
            self._consumer.stop_run()


def _open() -> asyncio.Event:
    event = asyncio.Event()
    event.set()
    return event


@asynccontextmanager
async def running(consumer: Consumer, handler: Any, **options: Any) -> AsyncIterator[asyncio.Task[RunSummary]]:
    """A consumer whose `run` is a task; the consumer is closed at the end, and so the run ends."""
    await consumer.start()
    task = asyncio.create_task(consumer.run(handler, **options))
    try:
        yield task
    finally:
        await consumer.close()
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()


def status(consumer: Consumer) -> RunStatus:
    found = consumer.run_status()
    assert found is not None
    return found


async def until(condition: Any) -> None:
    async def turn() -> None:
        while not condition():
            await asyncio.sleep(0)

    await asyncio.wait_for(turn(), LONG_TIMEOUT)


@pytest.mark.parametrize("order", ["partition", "key", "none"])
async def test_each_record_is_handled_once_and_committed(cluster: BehaviourCluster, topic: str, order: Any) -> None:
    await cluster.create_topic(topic, partitions=3)
    await fill(cluster, topic, 40, [0, 1, 2])
    consumer = member(cluster, topic)
    handler = Handler(consumer, 120)
    async with consumer:
        summary = await consumer.run(handler, concurrency=7, order=order)
    assert sorted(map(place, handler.seen)) == [(number, offset) for number in range(3) for offset in range(40)]
    assert handler.most <= (3 if order == "partition" else 7)
    assert handler.most > 1 or order == "key"
    assert (summary.processed, summary.failed, summary.topics[topic].processed) == (120, 0, 120)
    assert await committed(cluster, topic, 3) == [40, 40, 40]


async def test_a_partition_is_handled_in_order(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    await fill(cluster, topic, 50, [0, 1])
    consumer = member(cluster, topic)
    handler = Handler(consumer, 100)
    async with consumer:
        await consumer.run(handler)
    for number in (0, 1):
        assert [each.offset for each in handler.seen if each.partition == number] == list(range(50))


async def test_a_slow_key_does_not_hold_up_others(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await produce(cluster, topic, (b"slow", b"0"), (b"slow", b"1"), (b"a", b"2"), (None, b"3"), (b"a", b"4"))
    consumer = member(cluster, topic)
    handler = Handler(consumer, 5)
    handler.gates[b"slow"] = asyncio.Event()
    async with running(consumer, handler, order="key") as run:
        await until(lambda: len(handler.seen) == 3)
        assert sorted(each.offset for each in handler.seen) == [2, 3, 4]
        assert status(consumer).partitions[TopicPartition(topic, 0)].watermark == 0
        await consumer.commit()
        assert await committed(cluster, topic) == [0]
        handler.gates[b"slow"].set()
        await run
        assert [each.offset for each in handler.seen if each.key == b"slow"] == [0, 1]
        assert await committed(cluster, topic) == [5]


async def test_a_failing_handler_ends_the_run_and_its_record_is_not_committed(
    cluster: BehaviourCluster, topic: str
) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 20)
    calls: Counter[int] = Counter()

    async def handle(record: Record) -> None:
        calls[record.offset] += 1
        if record.offset == 7:
            raise ValueError("seven")

    async with member(cluster, topic) as consumer:
        with pytest.raises(ValueError, match="seven"):
            await consumer.run(handle, retry=Retry(attempts=3, backoff_ms=1))
        counts = status(consumer).counts
        assert (counts.processed, counts.failed, counts.retried) == (7, 3, 2)
        # The consumer continues at the record that failed, however it's read.
        assert (await anext(consumer)).offset == 7
    assert calls == Counter({**dict.fromkeys(range(7), 1), 7: 3})


async def test_records_finished_out_of_order_are_committed_up_to_the_first_unfinished_one(
    cluster: BehaviourCluster, topic: str
) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 10)

    async def handle(record: Record) -> None:
        if record.offset == 4:
            await until(lambda: status(consumer).counts.processed == 9)
            raise ValueError("four")

    async with member(cluster, topic) as consumer:
        with pytest.raises(ValueError, match="four"):
            await consumer.run(handle, order="none")
    assert await committed(cluster, topic) == [4]


async def test_a_record_that_keeps_failing_becomes_a_dead_letter(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await produce(cluster, topic, (b"k", b"good"), (b"k", b"bad"), (b"k", b"permanent"), (b"k", b"good"))
    letters = Letters()
    calls: list[int] = []

    async def handle(record: Record) -> None:
        calls.append(record.offset)
        if record.offset == 3:
            consumer.stop_run()
        if record.value == b"bad":
            raise ValueError("bad")
        if record.value == b"permanent":
            raise PermanentError("never")

    async with member(cluster, topic) as consumer:
        summary = await consumer.run(handle, retry=Retry(attempts=3, backoff_ms=1), dead_letter=letters)
    assert calls == [0, 1, 1, 1, 2, 3]
    assert [(record.value, str(error)) for record, error in letters.written] == [
        (b"bad", "bad"),
        (b"permanent", "never"),
    ]
    assert (summary.processed, summary.dead_lettered, summary.failed, summary.retried) == (2, 2, 4, 2)
    assert await committed(cluster, topic) == [4]


class Letters:
    """A dead-letter topic that keeps the records, or refuses them."""

    def __init__(self, error: Exception | None = None) -> None:
        self.written: list[tuple[Record, BaseException]] = []
        self._error = error

    async def write(
        self, record: Record, error: BaseException, *, group: str | None = None, delivery_count: int | None = None
    ) -> None:
        await asyncio.sleep(0)
        if self._error is not None:
            raise self._error
        assert group is not None
        assert delivery_count is not None
        self.written.append((record, error))


async def test_a_dead_letter_that_cannot_be_written_ends_the_run(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 3)

    async def handle(record: Record) -> None:
        if record.offset == 1:
            raise ValueError("bad")

    async with member(cluster, topic) as consumer:
        with pytest.raises(OSError, match="full"):
            await consumer.run(handle, dead_letter=Letters(OSError("full")))
    assert await committed(cluster, topic) == [1]


async def test_a_record_waits_in_retry_topics_while_later_ones_are_handled(
    cluster: BehaviourCluster, topic: str
) -> None:
    soon, later = f"{topic}.soon", f"{topic}.later"
    for name in (topic, soon, later):
        await cluster.create_topic(name)
    await produce(cluster, topic, (b"k", b"bad"), (b"k", b"good"))
    seen: list[tuple[str, bytes | None, dict[str, bytes | None]]] = []
    letters = Letters()

    async def handle(record: Record) -> None:
        seen.append((record.topic, record.value, dict(record.headers)))
        if record.topic == later:
            consumer.stop_run()
        if record.value == b"bad":
            raise ValueError("bad")

    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        retry_topics = RetryTopics({soon: 50, later: 100}, producer)
        async with member(cluster, topic, *retry_topics.topics) as consumer:
            summary = await consumer.run(handle, retry_topics=retry_topics, dead_letter=letters)
    assert [(name, value) for name, value, _ in seen] == [
        (topic, b"bad"),
        (topic, b"good"),
        (soon, b"bad"),
        (later, b"bad"),
    ]
    assert seen[3][2]["__retry.attempt"] == b"2"
    assert seen[3][2]["__retry.origin"] == f"{topic}-0@0".encode()
    assert [record.topic for record, _ in letters.written] == [later]
    assert (summary.processed, summary.retried, summary.dead_lettered) == (1, 2, 1)
    assert await committed(cluster, topic) == [2]


async def test_retry_topics_have_to_be_read_by_the_same_consumer(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer, member(cluster, topic) as consumer:
        with pytest.raises(ConfigurationError, match=r"does not read the retry topics other: subscribe"):
            await consumer.run(_nothing, retry_topics=RetryTopics({"other": 1000}, producer))


async def _nothing(record: Record) -> None:
    pass


async def test_a_batch_has_records_of_one_partition(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    await fill(cluster, topic, 30, [0, 1])
    seen: list[list[Place]] = []

    async def handle(records: list[Record]) -> None:
        seen.append([place(record) for record in records])
        if sum(map(len, seen)) == 60:
            consumer.stop_run()

    async with member(cluster, topic) as consumer:
        summary = await consumer.run(handle, batch=8)
    assert all(len(batch) <= 8 and len({partition for partition, _ in batch}) == 1 for batch in seen)
    assert any(len(batch) > 1 for batch in seen)
    for number in (0, 1):
        assert [at for batch in seen for at in batch if at[0] == number] == [(number, at) for at in range(30)]
    assert summary.processed == 60
    assert await committed(cluster, topic, 2) == [30, 30]


async def test_only_the_bad_record_of_a_batch_that_keeps_failing_is_a_dead_letter(
    cluster: BehaviourCluster, topic: str
) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 6, per_batch=6)
    letters = Letters()
    handled: list[int] = []

    async def handle(records: list[Record]) -> None:
        if any(record.offset == 3 for record in records):
            raise ValueError("three")
        handled.extend(record.offset for record in records)
        if records[-1].offset == 5:
            consumer.stop_run()

    async with member(cluster, topic) as consumer:
        summary = await consumer.run(handle, batch=10, dead_letter=letters)
    assert handled == [0, 1, 2, 4, 5]
    assert [record.offset for record, _ in letters.written] == [3]
    assert (summary.processed, summary.dead_lettered) == (5, 1)
    assert await committed(cluster, topic) == [6]


async def test_a_cancelled_run_lets_handlers_end_and_commits_what_they_finished(
    cluster: BehaviourCluster, topic: str
) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 10)
    async with member(cluster, topic) as consumer:
        handler = Handler(consumer, 99)
        handler.gates[3] = asyncio.Event()
        run = asyncio.create_task(consumer.run(handler))
        await until(lambda: len(handler.seen) == 3 and handler.running)
        run.cancel()
        await until(lambda: status(consumer).stopping)
        handler.gates[3].set()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert [each.offset for each in handler.seen] == [0, 1, 2, 3]
        assert await committed(cluster, topic) == [4]
        assert (await anext(consumer)).offset == 4


async def test_a_handler_that_does_not_end_in_time_is_cancelled(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 10)
    cancelled: list[int] = []

    async def handle(record: Record) -> None:
        if record.offset == 3:
            consumer.stop_run()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                cancelled.append(record.offset)
                raise

    async with member(cluster, topic) as consumer:
        summary = await consumer.run(handle, drain_timeout_ms=50)
    assert (cancelled, summary.processed) == ([3], 3)
    assert await committed(cluster, topic) == [3]


async def test_a_handler_that_takes_too_long_has_failed(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 3)
    calls: list[int] = []

    async def handle(record: Record) -> None:
        calls.append(record.offset)
        if calls.count(1) < 3 and record.offset == 1:
            await asyncio.Event().wait()
        if record.offset == 2:
            consumer.stop_run()

    async with member(cluster, topic) as consumer:
        summary = await consumer.run(handle, handler_timeout_ms=30, retry=Retry(backoff_ms=1))
        assert calls == [0, 1, 1, 1, 2]
        assert (summary.processed, summary.failed) == (3, 2)
        consumer.seek((topic, 0), 1)
        calls.clear()
        with pytest.raises(asyncio.TimeoutError, match=r"longer than 0.03 s \(handler_timeout_ms\)"):
            await consumer.run(handle, handler_timeout_ms=30)


async def test_closing_ends_the_run_and_commits(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 10)
    consumer = member(cluster, topic)
    handler = Handler(consumer, 99)
    handler.gates[5] = asyncio.Event()
    async with running(consumer, handler, order="none") as run:
        await until(lambda: len(handler.seen) == 9)
        closing = asyncio.create_task(consumer.close())
        await until(lambda: status(consumer).stopping)
        handler.gates[5].set()
        await closing
        assert (await run).processed == 10
    assert await committed(cluster, topic) == [10]


async def test_a_handler_cannot_close_the_consumer_but_end_the_run(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 1)

    async def handle(record: Record) -> None:
        with pytest.raises(RuntimeError, match=r"call stop_run\(\)"):
            await consumer.close()
        consumer.stop_run()

    async with member(cluster, topic) as consumer:
        assert (await consumer.run(handle)).processed == 1


async def test_a_signal_ends_the_run_and_handlers_of_before_are_restored(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 5)
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]

    async def handle(record: Record) -> None:
        if record.offset == 2:
            signal.raise_signal(signal.SIGTERM)
            await until(lambda: status(consumer).stopping)

    async with member(cluster, topic) as consumer:
        summary = await consumer.run(handle, handle_signals=True)
    assert summary.processed == 3
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
    assert await committed(cluster, topic) == [3]


async def test_the_event_loops_own_handler_of_a_signal_comes_back_after_the_run(
    cluster: BehaviourCluster, topic: str
) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 1)
    heard = asyncio.Event()
    loop, before = asyncio.get_running_loop(), signal.getsignal(signal.SIGTERM)

    async def handle(record: Record) -> None:
        consumer.stop_run()

    loop.add_signal_handler(signal.SIGTERM, heard.set)
    try:
        async with member(cluster, topic) as consumer:
            await consumer.run(handle, handle_signals=True)
        signal.raise_signal(signal.SIGTERM)
        await asyncio.wait_for(heard.wait(), LONG_TIMEOUT)
    finally:
        assert loop.remove_signal_handler(signal.SIGTERM)
        signal.signal(signal.SIGTERM, before)


async def test_a_run_that_cannot_handle_signals_has_not_begun(
    cluster: BehaviourCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.create_topic(topic)
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]

    def refuse(number: int, *_: object) -> None:
        if number == signal.SIGINT:
            raise NotImplementedError

    async with member(cluster, topic) as consumer:
        monkeypatch.setattr(asyncio.get_running_loop(), "add_signal_handler", refuse, raising=False)
        with pytest.raises(ConfigurationError, match="handle_signals=True needs the main thread"):
            await consumer.run(_nothing, handle_signals=True)
        assert not status(consumer).active
        assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)] == before
        assert await consumer.poll(0) == []


async def test_a_deadline_or_a_task_group_can_end_the_run(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 5)
    async with member(cluster, topic) as consumer:
        handler = Handler(consumer, 99)

        async def deadline() -> None:
            await until(lambda: len(handler.seen) == 5)
            raise LookupError

        run = asyncio.ensure_future(consumer.run(handler))
        with pytest.raises(LookupError):
            await asyncio.gather(run, deadline())
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(run, 0.01)
        assert not status(consumer).active
    assert await committed(cluster, topic) == [5]


async def test_a_run_has_the_consumer_for_itself(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 3)
    consumer = member(cluster, topic)
    handler = Handler(consumer, 99)
    async with running(consumer, handler):
        await until(lambda: len(handler.seen) == 3)
        with pytest.raises(RuntimeError, match=r"run\(\) is running already"):
            await consumer.run(handler)
        for call in (consumer.poll(), anext(consumer), anext(consumer.batches())):
            with pytest.raises(RuntimeError, match=r"run\(\) reads the records of this consumer"):
                await call
        consumer.stop_run()
        await until(lambda: not status(consumer).active)
        waiting = asyncio.ensure_future(consumer.poll(timeout_ms=LONG_TIMEOUT * 1000))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="another task is waiting"):
            await consumer.run(handler)
        waiting.cancel()
        await asyncio.wait([waiting])


async def test_a_consumer_of_an_exactly_once_session_does_not_run_handlers(
    cluster: BehaviourCluster, topic: str
) -> None:
    await cluster.create_topic(topic)
    consumer = member(cluster, topic, enable_auto_commit=False, isolation_level="read_committed")
    producer = Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id=topic)
    async with ExactlyOnce(consumer, producer):
        with pytest.raises(ConfigurationError, match="ExactlyOnce, which commits by itself"):
            await consumer.run(_nothing)


async def test_a_function_that_is_no_coroutine_function_finishes_no_record(
    cluster: BehaviourCluster, topic: str
) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 3)
    wrong: Any = lambda record: None  # noqa: E731
    async with member(cluster, topic) as consumer:
        with pytest.raises(ConfigurationError, match="is no coroutine function"):
            await consumer.run(wrong, dead_letter=Letters(), retry=Retry())
    assert await committed(cluster, topic) == [0]


async def test_a_cancelled_error_of_a_handler_that_was_not_cancelled_is_retried_and_becomes_a_dead_letter(
    cluster: BehaviourCluster, topic: str
) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 3)

    async def handle(record: Record) -> None:
        if record.offset == 1:
            raise asyncio.CancelledError
        if record.offset == 2:
            consumer.stop_run()

    async with member(cluster, topic) as consumer:
        letters = Letters()
        summary = await consumer.run(handle, retry=Retry(attempts=3, backoff_ms=1), dead_letter=letters)
    assert (summary.failed, summary.retried, summary.dead_lettered) == (3, 2, 1)
    assert await committed(cluster, topic) == [3]


async def test_a_function_that_tells_lanes_decides_the_order(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 6)
    consumer = member(cluster, topic)
    handler = Handler(consumer, 6)
    handler.gates[0] = asyncio.Event()
    async with running(consumer, handler, order=lambda record: record.offset % 2) as run:
        await until(lambda: len(handler.seen) == 3)
        assert [each.offset for each in handler.seen] == [1, 3, 5]
        handler.gates[0].set()
        await run


async def test_a_key_that_cannot_be_determined_ends_the_run_and_loses_nothing(
    cluster: BehaviourCluster, topic: str
) -> None:
    await cluster.create_topic(topic)
    await fill(cluster, topic, 3)
    async with member(cluster, topic) as consumer:
        with pytest.raises(TypeError, match=r"order returned \[\], which cannot be hashed"):
            await consumer.run(_nothing, order=lambda record: [])  # type: ignore[arg-type, return-value]
        assert (await anext(consumer)).offset == 0
