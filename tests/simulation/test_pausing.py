"""Pausing a partition keeps its fetched records."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.codec.messages.fetch import FetchRequest
from aiokproto.codec.schema import Response
from aiokproto.types import TopicPartition
from tests.simulation.environment import Environment
from tests.simulation.test_consumer_guards import run

WHERE = TopicPartition("t", 0)


def test_what_was_fetched_before_a_pause_is_delivered_after_it_and_not_fetched_again() -> None:
    requested: list[int] = []

    async def note(call: RequestInfo, serve: Serve) -> Response | None:
        answer: Any = await serve(call.request)
        requested.extend(
            part.records is not None and len(part.records) for topic in answer.responses for part in topic.partitions
        )
        return answer  # type: ignore[no-any-return]

    async def program(environment: Environment, consumer: Consumer) -> None:
        environment.cluster.faults.intercept(FetchRequest, note)
        seen = [(await anext(consumer)).offset]
        for _ in range(10):
            consumer.pause(WHERE)
            assert await consumer.poll(1000) == []
            consumer.resume(WHERE)
            seen += [(await anext(consumer)).offset]
        seen += [(await asyncio.wait_for(anext(consumer), 5)).offset for _ in range(100 - len(seen))]
        assert seen == list(range(100))
        assert sum(requested) < 100 * 1100

    run(program, records=100, size=1000, max_partition_fetch_bytes=20_000)


def test_a_pause_holds_for_the_records_of_the_batch_that_is_being_read() -> None:
    async def program(environment: Environment, consumer: Consumer) -> None:
        async with Producer(bootstrap_servers=environment.cluster.bootstrap_servers) as producer:
            await producer.send_many("t", [b"%d" % offset for offset in range(6)], partition=0)
        for offset in range(5):
            assert (await asyncio.wait_for(anext(consumer), 5)).offset == offset
            consumer.pause(WHERE)
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(anext(consumer), 1)
            consumer.resume(WHERE)

    run(program, records=0)
