"""Producer.abort(): which records are dropped, which ones it waits for, and which ones are still delivered."""

from __future__ import annotations

import asyncio

import pytest

from aiokproto.broker import Broker
from aiokproto.broker.control import RequestInfo, Serve
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.codec.schema import Response
from aiokproto.errors import ClientClosedError, DeadlineError, RecordAbortedError
from aiokproto.producer import Producer
from tests.net.waiting import until


def hold_produce(broker: Broker) -> tuple[asyncio.Event, asyncio.Event]:
    """Hold the next Produce request. Return two events: the request has arrived; the test lets it continue."""
    sent, go = asyncio.Event(), asyncio.Event()

    async def hold(info: RequestInfo, serve: Serve) -> Response | None:
        sent.set()
        await go.wait()
        return await serve(info.request)

    broker.faults.intercept(ProduceRequest, hold, times=1)
    return sent, go


async def test_records_that_were_not_sent_are_dropped() -> None:
    async with Broker() as broker:
        await broker.create_topic("t")
        async with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=60_000) as producer:
            deliveries = [await producer.post("t", b"v") for _ in range(3)]
            assert await producer.abort() == 3
            for delivery in deliveries:
                with pytest.raises(RecordAbortedError, match=r"dropped by abort\(\) before the batch was sent"):
                    await delivery
            delivery = await producer.post("t", b"next")
            await producer.flush()
            assert (await delivery).offset == 0, "nothing else was written"
            assert producer.unobserved_failures == 0


async def test_records_that_were_sent_are_waited_for() -> None:
    async with Broker() as broker:
        await broker.create_topic("t")
        async with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0) as producer:
            await producer.send("t", b"first")
            sent, go = hold_produce(broker)
            delivery = await producer.post("t", b"sent")
            await sent.wait()
            with pytest.raises(DeadlineError, match=r"^abort: 1 record \(t-0: 1\) without outcome after 0 ms"):
                await producer.abort(timeout_ms=0)
            waiting = asyncio.create_task(producer.abort())
            go.set()
            assert await waiting == 0
            assert (await delivery).offset == 1


async def test_records_that_were_sent_can_be_dropped_too() -> None:
    """The next record has another epoch, so the broker doesn't take it for a duplicate or a gap."""
    async with Broker() as broker:
        await broker.create_topic("t")
        async with Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0) as producer:
            await producer.send("t", b"first")
            sent, go = hold_produce(broker)
            delivery = await producer.post("t", b"sent")
            await sent.wait()
            assert await producer.abort(in_flight=True) == 1
            with pytest.raises(RecordAbortedError, match="after 1 attempt: it may be in the log"):
                await delivery
            go.set()
            assert (await producer.send("t", b"next")).offset == 2


async def test_calls_that_wait_for_memory_or_metadata_raise() -> None:
    async with Broker(auto_create_topics=False) as broker:
        await broker.create_topic("t")
        async with Producer(
            bootstrap_servers=broker.bootstrap_servers, linger_ms=60_000, buffer_memory=2000, batch_size=1000
        ) as producer:
            broker.faults.drop(ProduceRequest)
            first = [await producer.post("t", bytes(900)) for _ in range(2)]
            broker.faults.drop(MetadataRequest)
            waiting = [asyncio.create_task(producer.send(topic, bytes(900))) for topic in ("t", "t", "u")]
            await until(lambda: len(producer._buffer._waiting_calls._scopes) == 3)
            await producer.abort(in_flight=True)
            for task in waiting:
                with pytest.raises(RecordAbortedError, match=r"abort\(\) was called before the record was buffered"):
                    await task
            for delivery in first:
                with pytest.raises(RecordAbortedError):
                    await delivery
            broker.faults.clear()
            assert (await producer.post("t", b"next")).done() is False
            await producer.flush()


async def test_a_cancelled_call_that_is_aborted_is_cancelled() -> None:
    async with Broker() as broker:
        await broker.create_topic("t")
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            broker.faults.drop(MetadataRequest)
            task = asyncio.create_task(producer.send("t", b"v"))
            await until(lambda: len(producer._buffer._waiting_calls._scopes) == 1)
            task.cancel()
            await producer.abort()
            await asyncio.wait([task])
            assert task.cancelled()


async def test_a_closed_producer_has_nothing_to_abort() -> None:
    async with Broker() as broker:
        producer = Producer(bootstrap_servers=broker.bootstrap_servers)
        with pytest.raises(ClientClosedError, match="not started"):
            await producer.abort()
        async with producer:
            pass
        with pytest.raises(ClientClosedError, match="closed"):
            await producer.abort()
