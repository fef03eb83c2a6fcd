"""Topics that grow, come and go under a group."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

from aiokproto import Client, Consumer
from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.codec.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.messages.sync_group import SyncGroupRequest
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import UnknownTopicError
from aiokproto.simulation import Simulation
from aiokproto.types import TopicPartition
from tests.simulation.members import run, subscribed


async def grow(cluster: Cluster, partitions: int) -> None:
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        topic = CreatePartitionsTopic(name="t", count=partitions, assignments=None)
        await client.request(CreatePartitionsRequest(topics=[topic], timeout_ms=5000))


def test_a_static_leader_that_came_back_notices_that_a_topic_grows() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        options |= {"group_instance_id": "i", "metadata_max_age_ms": 1000}
        async with subscribed(options) as consumer:
            await anext(consumer)
        # The coordinator says that the assignment must stay as it was (KIP-814).
        async with subscribed(options) as consumer:
            await anext(consumer)
            await grow(cluster, 4)
            await consumer.poll(3000)
            await consumer.poll(3000)
            assert len(consumer.assignment()) == 4

    run(program)


def test_a_topic_that_grows_while_its_assignment_is_on_its_way_is_assigned_again() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        cluster.faults.delay(SyncGroupRequest, 2.0, times=1)
        async with subscribed({**options, "metadata_max_age_ms": 1000}) as consumer:
            await asyncio.sleep(0.5)
            await grow(cluster, 4)
            # The metadata has the topic by then, and stays as it is.
            await asyncio.sleep(1.2)
            assert not consumer.assignment()
            for _ in range(5):
                await consumer.poll(100)
                await asyncio.sleep(0.1)
            assert len(consumer.assignment()) == 4

    run(program)


@pytest.mark.parametrize("group_id", [None, "g"])
def test_a_topic_that_a_pattern_had_found_may_go(group_id: str | None) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        await cluster.create_topic("u", 1)
        gone = TopicPartition("u", 0)
        options["group_id"] = group_id
        consumer = Consumer(**options)
        consumer.subscribe(pattern="t|u")
        async with consumer, Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            await consumer.poll(1000)
            assert gone in consumer.assignment()
            await client.request(DeleteTopicsRequest(topic_names=["u"], timeout_ms=5000), max_version=5)
            for _ in range(20):
                await consumer.poll(1000)
            assert consumer.assignment() == {TopicPartition("t", 0), TopicPartition("t", 1)}

    run(program)


@pytest.mark.parametrize("back_as", ["leader", "follower"])
def test_a_static_member_that_returns_with_fewer_topics_leaves_the_others_to_the_group(back_as: str) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        await cluster.create_topic("u", 2)
        static = {**options, "group_instance_id": "i"}
        members = {"static": Consumer("t", "u", **static), "other": Consumer("t", "u", **options)}
        for name in ("static", "other") if back_as == "leader" else ("other", "static"):
            await members[name].start()
            await members[name].poll(1000)
        for _ in range(10):
            await asyncio.gather(*(member.poll(200) for member in members.values()))
        assert {len(member.assignment()) for member in members.values()} == {2}
        await members["static"].close()
        # The coordinator assigns it the same partitions as before, whatever it subscribes to (KIP-345).
        other = members["other"]
        async with Consumer("t", **static) as back:
            for _ in range(20):
                await asyncio.gather(back.poll(500), other.poll(500))
            assert {partition.topic for partition in back.assignment()} == {"t"}
            assert len(back.assignment() | other.assignment()) == 4
        await other.close()

    run(program)


@pytest.mark.parametrize("ending", ["close", "unassign", "leave"])
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_offsets_of_a_topic_that_the_metadata_lack_for_a_while_are_committed_at_the_end(
    protocol: Any, ending: str
) -> None:
    """Brokers that lag behind don't know the topic for a while. There is no later commit."""

    async def without(call: RequestInfo, serve: Serve) -> Response | None:
        response: Any = await serve(call.request)
        for topic in response.topics:
            topic.error_code, topic.partitions = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, []
        return response  # type: ignore[no-any-return]

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        own = {**options, "metadata_max_age_ms": 200, "auto_commit_interval_ms": 600_000}
        if protocol == "consumer":
            own = {**own, "group_protocol": protocol}
            del own["session_timeout_ms"], own["heartbeat_interval_ms"]
        consumer = Consumer(**own)
        if ending == "unassign":
            consumer.assign(("t", 0), ("t", 1))
        else:
            consumer.subscribe("t")
        async with consumer:
            records = 0
            while records < 10:
                records += len(await consumer.poll(1000))
            with cluster.faults.intercept(MetadataRequest, without):
                for _ in range(6):
                    with suppress(UnknownTopicError):
                        await consumer.poll(1000)
                    await asyncio.sleep(1)
                if ending == "leave":
                    await consumer.unsubscribe()
                elif ending == "unassign":
                    consumer.assign()
                await consumer.close()
        async with Consumer(**options) as other:
            found = await other.committed(("t", 0), ("t", 1))
        assert [each and each.offset for each in found.values()] == [5, 5]

    run(program)
