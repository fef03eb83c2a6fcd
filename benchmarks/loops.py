"""Loops of an asyncio program around a producer or consumer, the same for every asyncio client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

from benchmarks.clients import Run
from benchmarks.work import CHUNK, Work


async def _nothing() -> None:
    """Most producers need no flush before their deliveries are awaited."""


@dataclass(frozen=True)
class Producing:
    """A started producer.

    Attributes:
        post: Buffers a value, and returns an awaitable of its acknowledgement.
        send: Writes a value and waits for its acknowledgement.
        flush: Must be called before deliveries are awaited, which could take long otherwise.
    """

    post: Callable[[str, bytes], Awaitable[Awaitable[Any]]]
    send: Callable[[str, bytes], Awaitable[Any]]
    flush: Callable[[], Awaitable[Any]] = _nothing


@dataclass(frozen=True)
class Transacting:
    """A started producer with a transactional id.

    Attributes:
        transact: Writes values in one transaction, and commits it.
    """

    transact: Callable[[str, Iterable[bytes]], Awaitable[None]]


@dataclass(frozen=True)
class Consuming:
    """A started consumer that knows the topic.

    Attributes:
        assign: Assigns all partitions, from the beginning.
        take: Reads at most so many messages and looks at each value; returns their number and bytes.
    """

    assign: Callable[[], Awaitable[None]]
    take: Callable[[int], Awaitable[tuple[int, int]]]


class Asyncio(Protocol):
    """A client that works in the event loop."""

    def producer(self, work: Work, linger_ms: int) -> AbstractAsyncContextManager[Producing]: ...

    def consumer(self, work: Work) -> AbstractAsyncContextManager[Consuming]: ...


Loop = Callable[[Asyncio, Work], Coroutine[Any, Any, None]]


def in_loop(work: Callable[[Work], Coroutine[Any, Any, None]]) -> Run:
    """A coroutine function as a `Run`, on asyncio's own event loop."""

    def run(given: Work) -> None:
        asyncio.run(work(given))

    return run


def with_client(loop: Loop, client: Asyncio) -> Run:
    return in_loop(partial(loop, client))


async def connect(producer: Producing, work: Work) -> None:
    """Send one record: afterwards the producer is connected to a leader, and has the topic's metadata."""
    await producer.send(work.topic, work.value())
    work.connecting += 1


async def post_all(client: Asyncio, work: Work) -> None:
    """Post all messages, and look at each delivery one chunk behind: so the connection never runs dry.

    Awaiting each is the cheapest way to look; `asyncio.gather` would cost more.
    """
    async with client.producer(work, work.settings.linger_ms) as producer:
        await connect(producer, work)
        topic, post = work.topic, producer.post
        with work.meter:
            behind: list[Awaitable[Any]] = []
            for count in work.chunks():
                ahead = [await post(topic, value) for value in work.values(count)]
                await settle(producer, work, behind)
                behind = ahead
            await settle(producer, work, behind)


async def settle(producer: Producing, work: Work, deliveries: Sequence[Awaitable[Any]]) -> None:
    await producer.flush()
    for delivery in deliveries:
        await delivery
    work.settled += len(deliveries)


async def send_each(client: Asyncio, work: Work) -> None:
    """Await every send before the next."""
    async with client.producer(work, linger_ms=0) as producer:
        await connect(producer, work)
        with work.meter:
            for value in work.values(work.messages):
                started = time.perf_counter()
                await producer.send(work.topic, value)
                work.latencies.append(time.perf_counter() - started)
                work.settled += 1


async def transact(producer: AbstractAsyncContextManager[Transacting], work: Work) -> None:
    """Commit one transaction after the other."""
    async with producer as ready:
        await ready.transact(work.topic, [work.value()])
        work.connecting += 1
        with work.meter:
            for values in work.transactions():
                started = time.perf_counter()
                await ready.transact(work.topic, values)
                work.latencies.append(time.perf_counter() - started)
        work.settled += work.messages


async def take_all(client: Asyncio, work: Work) -> None:
    """Read all messages, as many at once as the client gives."""
    async with client.consumer(work) as consumer:
        with work.meter:
            await consumer.assign()
            count = size = 0
            while count < work.messages:
                taken, length = await consumer.take(min(CHUNK, work.messages - count))
                count += taken
                size += length
        work.read(count, size)


async def start(client: Asyncio, work: Work) -> None:
    """From creating the producer to the first acknowledgement."""
    async with AsyncExitStack() as stack:
        with work.meter:
            producer = await stack.enter_async_context(client.producer(work, linger_ms=0))
            await producer.send(work.topic, work.value())
        work.settled += 1
