"""confluent-kafka's classes for asyncio: librdkafka called from a pool of threads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from confluent_kafka.aio import AIOConsumer, AIOProducer

from benchmarks import loops
from benchmarks.clients import Run, Stated, librdkafka
from benchmarks.clients.librdkafka import CONSUME_AT_ONCE, TIMEOUT
from benchmarks.loops import Asyncio, Consuming, Producing, with_client
from benchmarks.work import Kind, Settings, Work


class _Asyncio:
    @asynccontextmanager
    async def producer(self, work: Work, linger_ms: int) -> AsyncIterator[Producing]:
        producer = AIOProducer(librdkafka.producer_options(work, linger_ms))

        async def send(topic: str, value: bytes) -> Any:
            delivery = await producer.produce(topic, value)
            await producer.flush()
            return await delivery

        try:
            # Deliveries are served while it is called, and otherwise only after a second without a call.
            yield Producing(producer.produce, send, producer.flush)
        finally:
            await producer.close()

    @asynccontextmanager
    async def consumer(self, work: Work) -> AsyncIterator[Consuming]:
        consumer = AIOConsumer(librdkafka.consumer_options(work))
        await consumer.list_topics(work.topic, TIMEOUT)

        async def assign() -> None:
            await consumer.assign(librdkafka.assignment(work.topic, work.settings))

        async def take(most: int) -> tuple[int, int]:
            messages, size = await consumer.consume(min(CONSUME_AT_ONCE, most), 1.0), 0
            for message in messages:
                size += len(librdkafka.value(message))
            return len(messages), size

        try:
            yield Consuming(assign, take)
        finally:
            await consumer.close()


class ConfluentAioClient:
    asyncio: Asyncio | None = _Asyncio()

    def version(self) -> str:
        return librdkafka.version()

    def stated(self, settings: Settings) -> Stated:
        return Stated(
            works_in="threads: librdkafka's, and a pool that calls it",
            notes=[*librdkafka.NOTES, "batches of 1000 to a thread (default)", "flush() before deliveries are awaited"],
        )

    def ways(self, kind: Kind) -> Mapping[str, Run]:
        client = _Asyncio()
        ways: dict[Kind, dict[str, Run]] = {
            "produce": {"produce(), flush()": with_client(loops.post_all, client)},
            "latency": {"produce(), flush()": with_client(loops.send_each, client)},
            "transact": {},
            "consume": {f"consume({CONSUME_AT_ONCE})": with_client(loops.take_all, client)},
            "start": {"produce(), flush()": with_client(loops.start, client)},
        }
        return ways[kind]


CLIENT = ConfluentAioClient()
