"""Clients in a loop whose tasks start when they are created (Python 3.12), not in the loop's next iteration."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiokproto import Broker, Consumer, Producer

pytestmark = pytest.mark.skipif(sys.version_info < (3, 12), reason="asyncio.eager_task_factory came with Python 3.12")
COUNT = 500


@pytest.fixture
async def servers() -> AsyncIterator[str]:
    loop: Any = asyncio.get_running_loop()
    before = loop.get_task_factory()
    # The factory is looked up by name, because type checkers check this for Python 3.10.
    loop.set_task_factory(vars(asyncio)["eager_task_factory"])
    async with Broker() as broker:
        await broker.create_topic("flights", partitions=3)
        yield broker.bootstrap_servers
    loop.set_task_factory(before)


async def test_records_are_produced_and_consumed_in_order(servers: str) -> None:
    async with Producer(bootstrap_servers=servers, linger_ms=1) as producer:
        deliveries = [await producer.post("flights", b"%d" % index, partition=index % 3) for index in range(COUNT)]
        for index, delivery in enumerate(deliveries):
            assert (await delivery).offset == index // 3
    seen: dict[int, list[bytes]] = {0: [], 1: [], 2: []}
    async with Consumer(
        "flights", bootstrap_servers=servers, group_id="report", auto_offset_reset="earliest"
    ) as consumer:
        async for record in consumer:
            seen[record.partition].append(record.value or b"")
            if sum(map(len, seen.values())) == COUNT:
                break
    assert seen == {place: [b"%d" % index for index in range(place, COUNT, 3)] for place in range(3)}


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_members_join_and_leave_a_group(servers: str, protocol: str) -> None:
    options: dict[str, Any] = {"bootstrap_servers": servers, "group_id": protocol, "group_protocol": protocol}
    async with Consumer("flights", **options) as first:
        await first.poll(timeout_ms=0)
        async with Consumer("flights", **options) as second:
            while not (first.assignment() and second.assignment()):
                await asyncio.gather(first.poll(timeout_ms=10), second.poll(timeout_ms=10))
        while len(first.assignment()) < 3:
            await first.poll(timeout_ms=10)


async def test_a_cancelled_call_leaves_the_client_usable(servers: str) -> None:
    async with Producer(bootstrap_servers=servers) as producer:
        for _ in range(20):
            task = asyncio.ensure_future(producer.send("flights", b"value", partition=0))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await producer.flush()
        assert (await producer.send("flights", b"last", partition=0)).offset <= 20
