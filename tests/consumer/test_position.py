"""Waiting for a position."""

from __future__ import annotations

import asyncio

from aiokproto import Consumer
from aiokproto.types import TopicPartition

AT = TopicPartition("t", 0)


async def test_a_position_that_becomes_known_in_the_loop_iteration_of_the_call() -> None:
    consumer = Consumer(bootstrap_servers="localhost:1")
    consumer.assign(AT)
    engine = consumer._engine
    engine._running = True
    asking = asyncio.create_task(consumer.position(AT, timeout_ms=5000))
    asyncio.get_running_loop().call_soon(engine.assignment.resolved, engine.assignment.get(AT), 7)
    for _ in range(10):
        await asyncio.sleep(0)
    assert asking.done()
    assert asking.result() == 7
