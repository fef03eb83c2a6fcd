"""aiokafka: pure asyncio, Cython for records."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiokafka

from benchmarks.clients import Run, in_loop
from benchmarks.work import CHUNK, Kind, Settings, Work


def _producer(work: Work, kind: Kind) -> Any:
    return aiokafka.AIOKafkaProducer(
        bootstrap_servers=work.bootstrap,
        acks="all",
        linger_ms=work.linger_ms(kind),
        max_batch_size=work.settings.batch_bytes,
        compression_type=None,
    )


async def _send(work: Work) -> None:
    async with _producer(work, "produce") as producer:
        await producer.send_and_wait(work.topic, work.value)
        topic, value, send = work.topic, work.value, producer.send
        with work.meter:
            # Looked at one chunk behind, so that the connection never runs dry; `gather` would cost more.
            behind: list[Any] = []
            for count in work.chunks():
                ahead = [await send(topic, value) for _ in range(count)]
                for future in behind:
                    await future
                work.settled += len(behind)
                behind = ahead
            for future in behind:
                await future
            work.settled += len(behind)


async def _send_and_wait(work: Work) -> None:
    async with _producer(work, "latency") as producer:
        await producer.send_and_wait(work.topic, work.value)
        with work.meter:
            for _ in range(work.messages):
                started = time.perf_counter()
                await producer.send_and_wait(work.topic, work.value)
                work.latencies.append(time.perf_counter() - started)
                work.settled += 1


@asynccontextmanager
async def _consumer(work: Work) -> AsyncIterator[Any]:
    """A consumer that knows the topic."""
    async with aiokafka.AIOKafkaConsumer(
        bootstrap_servers=work.bootstrap,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_bytes=work.settings.fetch_max_bytes,
        max_partition_fetch_bytes=work.settings.partition_fetch_bytes,
    ) as consumer:
        await consumer.topics()
        yield consumer


def _assign(consumer: Any, work: Work) -> None:
    consumer.assign([aiokafka.TopicPartition(work.topic, index) for index in range(work.settings.partitions)])


async def _async_for(work: Work) -> None:
    async with _consumer(work) as consumer:
        with work.meter:
            _assign(consumer, work)
            left, size = work.messages, 0
            async for record in consumer:
                size += len(record.value)
                left -= 1
                if not left:
                    break
        work.read(work.messages, size)


async def _getmany(work: Work) -> None:
    async with _consumer(work) as consumer:
        with work.meter:
            _assign(consumer, work)
            count = size = 0
            while count < work.messages:
                fetched = await consumer.getmany(timeout_ms=1000, max_records=min(CHUNK, work.messages - count))
                for records in fetched.values():
                    count += len(records)
                    for record in records:
                        size += len(record.value)
        work.read(count, size)


class AiokafkaClient:
    def version(self) -> str:
        return str(aiokafka.__version__)

    def stated(self, settings: Settings) -> Mapping[str, str]:
        return {"idempotence": "off (default)", "in flight": "1 per broker (fixed)", "checks CRCs": "yes (default)"}

    def ways(self, kind: Kind) -> Mapping[str, Run]:
        return {
            "produce": {"send(), later awaited": in_loop(_send)},
            "latency": {"send_and_wait()": in_loop(_send_and_wait)},
            "consume": {"async for": in_loop(_async_for), "getmany()": in_loop(_getmany)},
        }[kind]


CLIENT = AiokafkaClient()
