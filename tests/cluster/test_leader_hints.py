"""A response that names the new leader and its address is enough to go on: no metadata is needed (KIP-951)."""

from __future__ import annotations

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.metadata import MetadataRequest


@pytest.fixture(params=["produce", "fetch"])
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_a_leader_that_the_metadata_does_not_list_is_found_by_the_response(way: str) -> None:
    """The new leader was down when the client requested the metadata, and no later Metadata request is answered."""
    async with Cluster(2) as cluster:
        await cluster.create_topic("t", partitions=1, replication=2)
        first = cluster.bootstrap_servers.split(",")[0]
        await cluster.move_leader("t", 0, to_node=0)
        async with Producer(bootstrap_servers=first) as other:
            await other.send("t", b"1")
            await cluster.stop_broker(1)
            producer = Producer(bootstrap_servers=first)
            consumer = Consumer("t", bootstrap_servers=first, auto_offset_reset="earliest")
            async with producer, consumer:
                await producer.send("t", b"2")
                assert (await anext(consumer)).value == b"1"
                assert (await anext(consumer)).value == b"2"
                cluster.faults.drop(MetadataRequest)
                await cluster.start_broker(1)
                await cluster.move_leader("t", 0, to_node=1)
                if way == "produce":
                    assert (await producer.send("t", b"3")).offset == 2
                else:
                    await other.send("t", b"3")
                    assert (await anext(consumer)).value == b"3"
