"""Topics that brokers list without partitions and without an error, as they do while topics are created."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.schema import Response
from aiokproto.errors import BufferFullError, DeadlineError
from aiokproto.simulation import Simulation

ANOTHER = bytes(range(16))


def run(program: Callable[[Simulation, Cluster, dict[str, Any]], Awaitable[None]]) -> None:
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", 2)
            servers = {"bootstrap_servers": cluster.bootstrap_servers, "metadata_max_age_ms": 500}
            await program(simulation, cluster, servers)

    simulation.run(main())


def emptied(topic_id: bytes | None = None) -> Callable[[RequestInfo, Serve], Awaitable[Response | None]]:
    """Return a function that removes the partitions from Metadata responses, and gives the topic another id."""

    async def change(call: RequestInfo, serve: Serve) -> Response | None:
        response: Any = await serve(call.request)
        for topic in response.topics:
            topic.partitions = []
            topic.topic_id = topic_id or topic.topic_id
        return response  # type: ignore[no-any-return]

    return change


CALLS: dict[str, Callable[[Producer], Awaitable[Any]]] = {
    "send": lambda producer: producer.send("t", b"x"),
    "send with a key": lambda producer: producer.send("t", b"x", key=b"k"),
    "post": lambda producer: producer.post("t", b"x", key=b"k"),
    "partitions_for": lambda producer: producer.partitions_for("t"),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_producer_waits_for_the_partitions_until_max_block_ms(call: str) -> None:
    """The next call waits, too. Once there are partitions, it continues."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with Producer(**options, max_block_ms=2000) as producer:
            with cluster.faults.intercept(MetadataRequest, emptied()):
                for _ in range(2):
                    began = simulation.time()
                    with pytest.raises(DeadlineError, match="topics \\['t'\\] were not found in 2 s"):
                        await CALLS[call](producer)
                    assert simulation.time() - began == pytest.approx(2, abs=0.1)
                with pytest.raises(BufferFullError):
                    producer.try_post("t", b"x", key=b"k")
            await CALLS[call](producer)
            assert (await producer.send("t", b"x", key=b"k")).topic == "t"

    run(program)


@pytest.mark.parametrize("key", [None, b"k"])
@pytest.mark.parametrize("topic_id", [None, ANOTHER], ids=["same id", "another id"])
def test_a_producer_that_has_written_goes_on(topic_id: bytes | None, key: bytes | None) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with Producer(**options, max_block_ms=2000) as producer:
            await producer.send("t", b"x", key=key)
            with cluster.faults.intercept(MetadataRequest, emptied(topic_id)) as rule:
                await asyncio.sleep(3)
                assert rule.count > 3
                for _ in range(2):
                    await producer.send("t", b"x", key=key)
            await producer.send("t", b"x", key=key)

    run(program)


@pytest.mark.parametrize("group_id", [None, "g"])
def test_a_consumer_reads_once_there_are_partitions(group_id: str | None) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with Producer(**options) as producer:
            await producer.send("t", b"x", partition=1)
        consumer = Consumer("t", **options, group_id=group_id, auto_offset_reset="earliest")
        with cluster.faults.intercept(MetadataRequest, emptied()):
            starting = asyncio.create_task(consumer.start())
            await asyncio.sleep(5)
            assert not starting.done()
        await starting
        began = simulation.time()
        assert [record.value for record in await consumer.poll(10_000)] == [b"x"]
        assert simulation.time() - began < 5
        await consumer.close()

    run(program)
