"""aiokproto itself."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from aiokproto._version import __version__
from aiokproto.consumer import Consumer
from aiokproto.errors import KafkaError
from aiokproto.producer import Delivery, Producer
from benchmarks.clients import Run, in_loop
from benchmarks.work import CHUNK, Kind, Settings, Work


@asynccontextmanager
async def _producer(work: Work, kind: Kind) -> AsyncIterator[Producer]:
    """A producer that is connected to the topic's leader."""
    async with Producer(
        bootstrap_servers=work.bootstrap,
        acks="all",
        linger_ms=work.linger_ms(kind),
        batch_size=work.settings.batch_bytes,
        compression_type="none",
        max_in_flight_requests_per_connection=work.settings.in_flight,
    ) as producer:
        await producer.send(work.topic, work.value)
        yield producer


async def _post(work: Work) -> None:
    async with _producer(work, "produce") as producer:
        topic, value, post = work.topic, work.value, producer.post
        with work.meter:
            # Looked at one chunk behind, as with the other clients.
            behind: list[Delivery] = []
            for count in work.chunks():
                ahead = [await post(topic, value) for _ in range(count)]
                for delivery in behind:
                    await delivery
                work.settled += len(behind)
                behind = ahead
            for delivery in behind:
                await delivery
            work.settled += len(behind)


async def _send_many(work: Work) -> None:
    async with _producer(work, "produce") as producer:
        with work.meter:
            for outcome in await producer.send_many(work.topic, [work.value] * work.messages):
                if isinstance(outcome, KafkaError):
                    raise outcome
                work.settled += 1


async def _send(work: Work) -> None:
    async with _producer(work, "latency") as producer:
        with work.meter:
            for _ in range(work.messages):
                started = time.perf_counter()
                await producer.send(work.topic, work.value)
                work.latencies.append(time.perf_counter() - started)
                work.settled += 1


@asynccontextmanager
async def _consumer(work: Work) -> AsyncIterator[Consumer]:
    """A consumer that knows the topic."""
    async with Consumer(
        bootstrap_servers=work.bootstrap,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        fetch_max_bytes=work.settings.fetch_max_bytes,
        max_partition_fetch_bytes=work.settings.partition_fetch_bytes,
    ) as consumer:
        await consumer.partitions_for_topic(work.topic)
        yield consumer


def _assign(consumer: Consumer, work: Work) -> None:
    consumer.assign([(work.topic, index) for index in range(work.settings.partitions)])


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


async def _poll(work: Work) -> None:
    async with _consumer(work) as consumer:
        with work.meter:
            _assign(consumer, work)
            count = size = 0
            while count < work.messages:
                records = await consumer.poll(1000, max_records=min(CHUNK, work.messages - count))
                count += len(records)
                for record in records:
                    size += len(record.value or b"")
        work.read(count, size)


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
    def version(self) -> str:
        return __version__

    def stated(self, settings: Settings) -> Mapping[str, str]:
        return {"idempotence": "on (default)", "in flight": str(settings.in_flight), "checks CRCs": "yes (default)"}

    def ways(self, kind: Kind) -> Mapping[str, Run]:
        ways: dict[Kind, dict[str, Run]] = {
            "produce": {"post(), later awaited": in_loop(_post), "send_many()": in_loop(_send_many)},
            "latency": {"send()": in_loop(_send)},
            "consume": {
                "async for": in_loop(_async_for),
                "poll()": in_loop(_poll),
                "batches(), each value": in_loop(_batches),
                "batches(), to_arrow()": in_loop(_arrow),
            },
        }
        return ways[kind]


CLIENT = OwnClient()
