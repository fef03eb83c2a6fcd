"""aiokafka: pure asyncio, Cython for records."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiokafka
from aiokafka.helpers import create_ssl_context

from benchmarks import loops
from benchmarks.clients import Run, Stated
from benchmarks.loops import Asyncio, Consuming, Producing, Transacting, in_loop, with_client
from benchmarks.work import Kind, Settings, Work


def _security(work: Work) -> dict[str, Any]:
    options: dict[str, Any] = work.security.options("sasl_plain_username", "sasl_plain_password")
    if "ssl_cafile" in options:
        options["ssl_context"] = create_ssl_context(cafile=options.pop("ssl_cafile"))
    return options


def _producer(work: Work, linger_ms: int, transactional_id: str | None = None) -> Any:
    return aiokafka.AIOKafkaProducer(
        transactional_id=transactional_id,
        bootstrap_servers=work.bootstrap,
        **_security(work),
        acks="all",
        enable_idempotence=work.settings.idempotence,
        linger_ms=linger_ms,
        max_batch_size=work.settings.batch_bytes,
        compression_type=None if work.compression == "none" else work.compression,
    )


class _Asyncio:
    @asynccontextmanager
    async def producer(self, work: Work, linger_ms: int) -> AsyncIterator[Producing]:
        async with _producer(work, linger_ms) as producer:
            yield Producing(producer.send, producer.send_and_wait)

    @asynccontextmanager
    async def consumer(self, work: Work) -> AsyncIterator[Consuming]:
        async with _consumer(work) as consumer:

            async def assign() -> None:
                _assign(consumer, work)

            async def take(most: int) -> tuple[int, int]:
                fetched = await consumer.getmany(timeout_ms=1000, max_records=most)
                count = size = 0
                for records in fetched.values():
                    count += len(records)
                    for record in records:
                        size += len(record.value)
                return count, size

            yield Consuming(assign, take)


@asynccontextmanager
async def _transactional(work: Work) -> AsyncIterator[Transacting]:
    async with _producer(work, work.settings.linger_ms, work.transactional_id) as producer:

        async def transact(topic: str, values: Iterable[bytes]) -> None:
            async with producer.transaction():
                # Committing waits for the deliveries.
                for value in values:
                    await producer.send(topic, value)

        yield Transacting(transact)


async def _transact(work: Work) -> None:
    await loops.transact(_transactional(work), work)


@asynccontextmanager
async def _consumer(work: Work) -> AsyncIterator[Any]:
    """A consumer that knows the topic."""
    async with aiokafka.AIOKafkaConsumer(
        bootstrap_servers=work.bootstrap,
        **_security(work),
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


class AiokafkaClient:
    asyncio: Asyncio | None = _Asyncio()

    def version(self) -> str:
        return str(aiokafka.__version__)

    def stated(self, settings: Settings) -> Stated:
        return Stated(works_in="the event loop", differs={"in flight": "1 for each broker, fixed"})

    def ways(self, kind: Kind) -> Mapping[str, Run]:
        client = _Asyncio()
        return {
            "produce": {"send(), later awaited": with_client(loops.post_all, client)},
            "latency": {"send_and_wait()": with_client(loops.send_each, client)},
            "transact": {"transaction(), send()": in_loop(_transact)},
            "consume": {"async for": in_loop(_async_for), "getmany()": with_client(loops.take_all, client)},
            "start": {"send_and_wait()": with_client(loops.start, client)},
        }[kind]


CLIENT = AiokafkaClient()
