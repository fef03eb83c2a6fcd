"""Callbacks of consumers, walked on an embedded broker in virtual time."""

from __future__ import annotations

import asyncio
from inspect import isawaitable
from types import MappingProxyType
from typing import Any

from aiokproto import Consumer
from aiokproto.broker import Cluster
from aiokproto.consumer import DeadLetterTopic, Retry, RetryTopics
from aiokproto.errors import RecordDeserializationError
from aiokproto.group.assignors import RoundRobinAssignor
from aiokproto.types import Record
from tests.callbacks.cases import Misbehaving, Outcome, attempt
from tests.callbacks.environment import PARTITIONS, RECORDS, in_time, read

Options = dict[str, Any]


class Running:
    """Handles all records once, in several runs.

    Attributes:
        done: Partition and offset of each record that was handled.
    """

    def __init__(self, consumer: Consumer[Any, Any]) -> None:
        self.done: set[tuple[int, int]] = set()
        self.consumer = consumer

    def finish(self, record: Any) -> None:
        self.done.add((record.partition, record.offset))
        if len(self.done) == PARTITIONS * RECORDS:
            self.consumer.stop_run()

    async def handle(self, record: Any) -> None:
        self.finish(record)

    def after(self, result: Any, record: Any) -> Any:
        """What a handler returns that has to await something before the record is done."""
        if not isawaitable(result):
            return result

        async def handled() -> None:
            await result
            self.finish(record)

        return handled()

    async def run(self, handler: Any = None, **options: Any) -> Outcome:
        """Run twice, the second time only if records are left."""
        handler = handler or self.handle

        async def once() -> None:
            if len(self.done) < PARTITIONS * RECORDS:
                await self.consumer.run(handler, drain_timeout_ms=1000, **options)

        outcome = Outcome(await attempt(once()), await attempt(once()))
        assert len(self.done) == PARTITIONS * RECORDS, f"{len(self.done)} records were handled"
        return outcome


async def handler(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    async with Consumer("t", **options) as consumer:
        running = Running(consumer)

        def handle(record: Record) -> Any:
            return running.after(misbehaving.started(record), record)

        return await running.run(handle)


async def handler_in_time(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    """With a timeout and retries."""
    async with Consumer("t", **options) as consumer:
        running = Running(consumer)

        def handle(record: Record) -> Any:
            return running.after(misbehaving.started(record), record)

        return await running.run(handle, handler_timeout_ms=500, retry=Retry(backoff_ms=10))


async def order(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    async with Consumer("t", **options) as consumer:
        return await Running(consumer).run(order=misbehaving.plain)


async def retry_on(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    failed = False

    async with Consumer("t", **options) as consumer:
        running = Running(consumer)

        async def handle(record: Record) -> None:
            nonlocal failed
            if not failed:
                failed = True
                raise OSError("down")
            running.finish(record)

        return await running.run(handle, retry=Retry(backoff_ms=10, on=misbehaving.plain))


class Letters:
    """Takes dead letters, and misbehaves."""

    def __init__(self, misbehaving: Misbehaving, running: Running) -> None:
        self._misbehaving = misbehaving
        self._running = running

    def write(self, record: Record, error: BaseException, **of: Any) -> Any:
        return self._running.after(self._misbehaving.started(), record)


async def fail(record: Record) -> None:
    """A handler that always fails."""
    raise OSError("down")


async def dead_letter(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    async with Consumer("t", **options) as consumer:
        running = Running(consumer)
        return await running.run(fail, dead_letter=Letters(misbehaving, running))


class Posting:
    """A producer, as far as dead letters and retry topics need one, that misbehaves."""

    def __init__(self, misbehaving: Misbehaving) -> None:
        self._misbehaving = misbehaving

    def post_bytes(self, topic: str, value: bytes | None, **record: Any) -> Any:
        return self._misbehaving.started()


def delivered() -> Any:
    """A delivery."""
    done = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done


async def letters_with(letters: Any, options: Options, *topics: str) -> Outcome:
    """Run with a handler that fails for the first record of each partition."""
    async with Consumer("t", *topics, **options) as consumer:
        running = Running(consumer)

        async def handle(record: Record) -> None:
            running.finish(record)
            if record.offset == 0:
                raise OSError("down")

        return await running.run(handle, **letters)


async def dead_letter_topic(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    posting = Posting(Misbehaving(misbehaving._case, lambda: delivered(), None, times=0))
    return await letters_with({"dead_letter": DeadLetterTopic(misbehaving.plain, posting)}, options)


async def dead_letter_producer(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await letters_with({"dead_letter": DeadLetterTopic("d", Posting(misbehaving))}, options)


async def retry_topics_producer(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    topics = RetryTopics({"d": 10}, Posting(misbehaving))
    return await letters_with({"retry_topics": topics}, options, "d")


async def _deserialized(options: Options, deserializer: Any) -> Outcome:
    consumer: Consumer[Any, Any] = Consumer("t", **options, value_deserializer=deserializer)
    read: list[Record[Any, Any]] = []

    async def one() -> None:
        read.append(await anext(consumer))

    async with in_time(consumer):
        outcome = Outcome(await attempt(one()), await attempt(one()))
        if outcome.again is None:
            while more := await consumer.poll(1000):
                read += more
            places = {(record.partition, record.offset) for record in read}
            expected = PARTITIONS * RECORDS - isinstance(outcome.error, RecordDeserializationError)
            assert len(places) == len(read) == expected, "each record is delivered once"
        return outcome


async def deserializer(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await _deserialized(options, misbehaving.plain)


async def awaited_deserializer(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await _deserialized(options, misbehaving.awaited)


async def deserializer_in_a_run(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    consumer: Consumer[Any, Any] = Consumer("t", **options, value_deserializer=misbehaving.awaited)
    async with consumer:
        running = Running(consumer)

        async def once() -> None:
            if len(running.done) < PARTITIONS * RECORDS:
                await consumer.run(running.handle, drain_timeout_ms=1000)

        first = await attempt(once())
        misbehaving.release()
        await asyncio.sleep(1)
        again = await attempt(once())
        assert len(running.done) == PARTITIONS * RECORDS
        return Outcome(first, again)


async def on_offset_reset(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    async with Consumer("t", **options, on_offset_reset=misbehaving.plain) as consumer:
        assert await attempt(anext(consumer)) is None
        consumer.seek(next(iter(consumer.assignment())), 10_000)
        await asyncio.sleep(5)
        return Outcome(await attempt(read(consumer)), await attempt(read(consumer)))


async def _with_listener(options: Options, trigger: Any, **listeners: Any) -> Outcome:
    consumer = Consumer(**options)
    consumer.subscribe("t", **listeners)
    async with consumer:
        first = await attempt(trigger(consumer))
        again = await attempt(anext(consumer), within=30)
        began = asyncio.get_running_loop().time()
        closing = await attempt(consumer.close(10_000))
        assert asyncio.get_running_loop().time() - began < 20, "closing is bounded"
        return Outcome(first, again or closing)


async def on_assigned(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await _with_listener(options, lambda consumer: anext(consumer), on_assigned=misbehaving.awaited)


async def on_assigned_plain(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await _with_listener(options, lambda consumer: anext(consumer), on_assigned=misbehaving.plain)


async def on_revoked(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    async def rebalance(consumer: Consumer) -> None:
        await anext(consumer)
        consumer.enforce_rebalance()
        while not misbehaving.calls:
            await consumer.poll(100, 1)
            await asyncio.sleep(0.3)
        await consumer.poll(100, 1)
        await consumer.poll(100, 1)

    return await _with_listener(options, rebalance, on_revoked=misbehaving.awaited)


async def on_lost(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    async def lose(consumer: Consumer) -> None:
        await anext(consumer)
        group = cluster.group("g")
        assert group is not None
        cluster.expire_session("g", next(iter(group.members)))
        while not misbehaving.calls:
            await consumer.poll(100, 1)
            await asyncio.sleep(0.3)
        await consumer.poll(100, 1)
        await consumer.poll(100, 1)

    return await _with_listener(options, lose, on_lost=misbehaving.awaited)


class Assigning(RoundRobinAssignor):
    """An assignor of the application, one of whose methods misbehaves."""

    name = "own"
    in_thread = False

    def __init__(self, misbehaving: Misbehaving, method: str) -> None:
        super().__init__()
        self._misbehaving = misbehaving
        self._method = method

    def _call(self, method: str, good: Any, *arguments: Any) -> Any:
        if method != self._method:
            return good(*arguments)
        self._misbehaving._good = good
        return self._misbehaving.plain(*arguments)

    def assign(self, partitions: Any, members: Any, racks: Any = MappingProxyType({})) -> Any:
        return self._call("assign", super().assign, partitions, members, racks)

    def user_data(self, topics: Any) -> Any:
        return self._call("user_data", super().user_data, topics)

    def on_assignment(self, assigned: Any, generation: int) -> Any:
        return self._call("on_assignment", super().on_assignment, assigned, generation)


class AssigningInThread(Assigning):
    """Assigns in a thread."""

    in_thread = True


async def _assigned(assignor: Any, options: Options) -> Outcome:
    async with Consumer("t", **options, partition_assignment_strategy=assignor) as consumer:
        return Outcome(await attempt(anext(consumer)), await attempt(anext(consumer)))


async def assign(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await _assigned(Assigning(misbehaving, "assign"), options)


async def assign_in_thread(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await _assigned(AssigningInThread(misbehaving, "assign"), options)


async def user_data(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await _assigned(Assigning(misbehaving, "user_data"), options)


async def on_assignment(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await _assigned(Assigning(misbehaving, "on_assignment"), options)
