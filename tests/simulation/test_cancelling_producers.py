"""Every public await of the producer, cancelled at each of its suspensions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from aiokproto import Producer
from aiokproto.broker import Cluster
from aiokproto.errors import KafkaError
from aiokproto.records import BatchRecord, encode
from aiokproto.simulation import Simulation
from tests.simulation.cancelling import Suspensions, cancelled
from tests.simulation.environment import stored_records

Call = Callable[[Producer], Awaitable[object]]

CALLS: dict[str, Call] = {
    "send": lambda producer: producer.send("t", b"mine"),
    "send, compressed in a thread": lambda producer: producer.send("t", b"mine" * 20_000),
    "post": lambda producer: producer.post("t", b"mine"),
    "post and wait": lambda producer: _posted(producer),
    "send_many": lambda producer: producer.send_many("t", [b"mine"] * 10),
    "send_batch": lambda producer: producer.send_batch("t", encode([BatchRecord(0, 0, None, b"mine")]), partition=0),
    "flush": lambda producer: _flushed(producer),
    "partitions_for": lambda producer: producer.partitions_for("t"),
    "close": lambda producer: _closed(producer),
}


async def _posted(producer: Producer) -> object:
    delivery = await producer.post("t", b"mine")
    return await delivery


async def _flushed(producer: Producer) -> None:
    await producer.post("t", b"mine")
    await producer.flush()


async def _closed(producer: Producer) -> None:
    await producer.post("t", b"mine")
    await producer.close()


MOST = 40
"""More suspensions than any call has."""


async def once(name: str, at: int, *, new_topic: bool, full: bool) -> bool:
    """Cancel a call at a suspension, and check that the producer still works. Return whether the call has that
    suspension."""
    async with Cluster(1) as cluster:
        await cluster.create_topic("t", 1)
        servers = cluster.bootstrap_servers
        memory = 100_000 if full else 10_000_000
        async with Producer(bootstrap_servers=servers, compression_type="lz4", buffer_memory=memory) as producer:
            if not new_topic:
                await producer.send("t", b"before")
                if full:
                    producer.try_post("t", bytes(memory - 200))
            others = [asyncio.create_task(producer.send("t", b"other")) for _ in range(2)]
            await asyncio.sleep(0)
            was_cancelled = await cancelled(Suspensions(), CALLS[name](producer), at)
            late = [asyncio.create_task(producer.send("t", b"late")) for _ in range(2)]
            for task in (*others, *late):
                try:
                    await task
                except KafkaError:
                    assert name == "close", "only closing may fail what others send"
            if name != "close":
                await producer.send("t", b"after")
            assert producer._accumulator.used == 0
        values = [value for _, value in stored_records(cluster, "t", 0)]
        if name != "close":
            assert values.count(b"other") == values.count(b"late") == 2
            assert values[-1] == b"after"
        written = sum(value is not None and value.startswith(b"mine") for value in values)
        assert written <= (10 if name == "send_many" else 1), "nothing is written twice"
    return was_cancelled


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("new_topic", [False, True], ids=["known topic", "new topic"])
@pytest.mark.parametrize("full", [False, True], ids=["room", "full buffer"])
def test_a_call_cancelled_wherever_it_suspends(name: str, new_topic: bool, full: bool) -> None:
    """Buffered records are delivered and others aren't, other calls don't notice, and nothing is left behind."""
    points = 0
    for at in range(1, MOST):
        simulation = Simulation(at)
        suspended = simulation.run(once(name, at, new_topic=new_topic, full=full))
        if not suspended:
            break
        points += 1
    else:
        pytest.fail(f"{name} suspends more than {MOST} times")
    assert points or name in ("post", "partitions_for"), "it suspends at all"


def test_starting_can_be_cancelled_wherever_it_suspends() -> None:
    async def start(at: int) -> bool:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", 1)
            producer = Producer(bootstrap_servers=cluster.bootstrap_servers)
            was_cancelled = await cancelled(Suspensions(), producer.start(), at)
            mine = asyncio.current_task()
            client = [task for task in asyncio.all_tasks() if task is not mine and "aiokproto" in task.get_name()]
            if was_cancelled:
                assert not client, "nothing goes on"
            else:
                await producer.close()
            return was_cancelled

    points = 0
    while Simulation(points).run(start(points + 1)):
        points += 1
    assert 0 < points < MOST
