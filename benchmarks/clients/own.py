"""aiokproto itself, accelerated or pure as the environment has it."""

from __future__ import annotations

import platform
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

import aiokproto
from aiokproto.consumer import Consumer
from aiokproto.producer import Producer
from aiokproto.types import Record
from benchmarks import loops
from benchmarks.clients import Run, Stated
from benchmarks.loops import Asyncio, Consuming, Producing, Transacting, in_loop, with_client
from benchmarks.work import Kind, Settings, Work


class _Asyncio:
    @asynccontextmanager
    async def producer(self, work: Work, linger_ms: int) -> AsyncIterator[Producing]:
        async with _producer(work, linger_ms) as producer:
            yield Producing(producer.post, producer.send)

    @asynccontextmanager
    async def consumer(self, work: Work) -> AsyncIterator[Consuming]:
        async with _consumer(work) as consumer:

            async def assign() -> None:
                _assign(consumer, work)

            async def take(most: int) -> tuple[int, int]:
                records, size = await consumer.poll(1000, max_records=most), 0
                for record in records:
                    size += len(record.value or b"")
                return len(records), size

            yield Consuming(assign, take)


def _producer(work: Work, linger_ms: int, transactional_id: str | None = None) -> Producer:
    return Producer(
        transactional_id=transactional_id,
        bootstrap_servers=work.bootstrap,
        **work.security.options("sasl_username", "sasl_password"),
        acks="all",
        enable_idempotence=work.settings.idempotence,
        linger_ms=linger_ms,
        batch_size=work.settings.batch_bytes,
        compression_type=work.compression,  # type: ignore[arg-type]
        max_in_flight_requests_per_connection=work.settings.in_flight,
    )


@asynccontextmanager
async def _transactional(work: Work) -> AsyncIterator[Transacting]:
    async with _producer(work, work.settings.linger_ms, work.transactional_id) as producer:

        async def transact(topic: str, values: Iterable[bytes]) -> None:
            async with producer.transaction() as txn:
                for value in values:
                    await txn.post(topic, value)

        yield Transacting(transact)


async def _transact(work: Work) -> None:
    await loops.transact(_transactional(work), work)


async def _send_many(work: Work) -> None:
    async with _producer(work, work.settings.linger_ms) as producer:
        await producer.send(work.topic, work.value())
        work.connecting += 1
        with work.meter:
            outcomes = await producer.send_many(work.topic, work.values(work.messages))
            for error in outcomes.errors.values():
                raise error
            work.settled += len(outcomes)


@asynccontextmanager
async def _consumer(work: Work) -> AsyncIterator[Consumer]:
    """A consumer that knows the topic."""
    async with Consumer(
        bootstrap_servers=work.bootstrap,
        **work.security.options("sasl_username", "sasl_password"),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_bytes=work.settings.fetch_max_bytes,
        max_partition_fetch_bytes=work.settings.partition_fetch_bytes,
    ) as consumer:
        await consumer.partitions_for_topic(work.topic)
        yield consumer


def _assign(consumer: Consumer, work: Work) -> None:
    consumer.assign(*((work.topic, index) for index in range(work.settings.partitions)))


async def _async_for(work: Work) -> None:
    async with _consumer(work) as consumer:
        with work.meter:
            _assign(consumer, work)
            left, size = work.messages, 0
            async for record in consumer:
                size += len(record.value or b"")
                left -= 1
                if not left:
                    break
        work.read(work.messages, size)


async def _run(work: Work) -> None:
    left, size = work.messages, 0

    async def handle(record: Record) -> None:
        nonlocal left, size
        size += len(record.value or b"")
        left -= 1
        if not left:
            consumer.stop_run()

    async with _consumer(work) as consumer:
        with work.meter:
            _assign(consumer, work)
            await consumer.run(handle)
        work.read(work.messages, size)


async def _batches(work: Work) -> None:
    async with _consumer(work) as consumer:
        with work.meter:
            _assign(consumer, work)
            count = size = 0
            async for batch in consumer.batches():
                for record in batch:
                    size += len(record.value or b"")
                    count += 1
                if count >= work.messages:
                    break
        work.read(count, size)


async def _arrow(work: Work) -> None:
    import pyarrow.compute as pc

    async with _consumer(work) as consumer:
        with work.meter:
            _assign(consumer, work)
            count = size = 0
            async for batch in consumer.batches():
                table = batch.to_arrow()
                lengths = pc.call_function("binary_length", [table["value"]])
                size += pc.call_function("sum", [lengths]).as_py()
                count += table.num_rows
                if count >= work.messages:
                    break
        work.read(count, size)


class OwnClient:
    asyncio: Asyncio | None = _Asyncio()

    def version(self) -> str:
        return aiokproto.__version__

    def stated(self, settings: Settings) -> Stated:
        accelerated = getattr(aiokproto, "accelerated", False)
        return Stated(
            works_in="the event loop",
            notes=[
                f"accelerator: {'in use' if accelerated else 'not in use, pure Python'}",
                f"{platform.python_implementation()} {platform.python_version()}",
            ],
        )

    def ways(self, kind: Kind) -> Mapping[str, Run]:
        client = _Asyncio()
        ways: dict[Kind, dict[str, Run]] = {
            "produce": {
                "post(), later awaited": with_client(loops.post_all, client),
                "send_many()": in_loop(_send_many),
            },
            "latency": {"send()": with_client(loops.send_each, client)},
            "transact": {"transaction(), post()": in_loop(_transact)},
            "consume": {
                "async for": in_loop(_async_for),
                "run()": in_loop(_run),
                "poll()": with_client(loops.take_all, client),
                "batches(), each value": in_loop(_batches),
                "batches(), to_arrow()": in_loop(_arrow),
            },
            "start": {"send()": with_client(loops.start, client)},
        }
        return ways[kind]


CLIENT = OwnClient()
