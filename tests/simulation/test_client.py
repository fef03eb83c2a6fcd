"""Requests, metadata and lookups while brokers are silent, in virtual time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any

import pytest

from aiokproto.broker import Cluster
from aiokproto.client import Client
from aiokproto.cluster import ClusterClient, CoordinatorKind
from aiokproto.codec.messages.create_topics import CreateTopicsRequest
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest
from aiokproto.codec.messages.describe_cluster import DescribeClusterRequest
from aiokproto.codec.messages.describe_groups import DescribeGroupsRequest
from aiokproto.codec.messages.list_groups import ListGroupsRequest
from aiokproto.codec.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aiokproto.config import ClusterConfig, ConnectionOptions
from aiokproto.errors import DeadlineError, UnknownTopicError
from aiokproto.simulation import Simulation

SLACK = 0.1
"""Seconds that a call may exceed its deadline."""


def silence(simulation: Simulation, kafka: Cluster, *nodes: int) -> None:
    """Drop all requests to these brokers, and their responses."""
    servers = kafka.bootstrap_servers.split(",")
    for node in nodes:
        host, port = servers[node].split(":")
        simulation.network.link("client", (host, int(port))).silence()


@pytest.mark.parametrize("node", range(3))
def test_a_silent_broker_does_not_delay_requests_that_others_can_answer(node: int) -> None:
    """This holds for each broker: requests for metadata and coordinators go to another one after a second."""
    simulation = Simulation(node)

    async def main() -> list[float]:
        async with Cluster(brokers=3) as kafka:
            await kafka.create_topic("t", partitions=3)
            async with ClusterClient(ClusterConfig.parse({"bootstrap_servers": kafka.bootstrap_servers})) as cluster:
                for other in range(3):
                    await cluster.version(MetadataRequest, other)
                silence(simulation, kafka, node)
                took = []
                for call in (
                    lambda: cluster.topic("t"),
                    lambda: cluster.topics(),
                    lambda: cluster.coordinator(CoordinatorKind.GROUP, "one"),
                    lambda: cluster.coordinator(CoordinatorKind.GROUP, "two"),
                ):
                    start = simulation.time()
                    await call()
                    took.append(simulation.time() - start)
                await cluster.close(0)
                return took

    assert max(simulation.run(main())) < 3


def test_a_silent_broker_is_tried_last() -> None:
    """Many requests at once do the same, although the other brokers then have more to do."""
    simulation = Simulation(5)

    async def main() -> float:
        async with Cluster(brokers=3) as kafka:
            cluster = ClusterClient(ClusterConfig.parse({"bootstrap_servers": kafka.bootstrap_servers}))
            await cluster.start()
            for node in range(3):
                await cluster.version(MetadataRequest, node)
            silence(simulation, kafka, 1)
            with pytest.raises(DeadlineError):
                await cluster.send(DescribeClusterRequest(), 1, timeout=2)
            start = simulation.time()
            await asyncio.gather(*(cluster.request(DescribeClusterRequest()) for _ in range(100)))
            took = simulation.time() - start
            await cluster.close(0)
            return took

    assert simulation.run(main()) < 0.1


def calls(client: Client, timeout: float) -> dict[str, Callable[[], Awaitable[object]]]:
    """Return every way in which a client waits, each with its deadline in milliseconds (None: by the options)."""
    where = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
    leader = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=where)])
    return {
        "any broker": lambda: client.request(DescribeClusterRequest(), timeout_ms=timeout),
        "the controller": lambda: client.request(CreateTopicsRequest(topics=[], timeout_ms=1), timeout_ms=timeout),
        "a coordinator": lambda: client.request(DescribeGroupsRequest(groups=["g"]), timeout_ms=timeout),
        "a leader": lambda: client.request(leader, timeout_ms=timeout),
        "every broker": lambda: client.request(ListGroupsRequest(), timeout_ms=timeout),
        "a node": lambda: client.request(ListGroupsRequest(), node=1, timeout_ms=timeout),
        "a topic": lambda: client.metadata(["new"], timeout_ms=timeout),
        "all topics": lambda: client.metadata(timeout_ms=timeout),
        "versions": lambda: client.versions(2),
        "version": lambda: client.version(MetadataRequest, 2),
    }


@pytest.mark.parametrize("warm", [True, False], ids=["connected", "not connected"])
@pytest.mark.parametrize("timeout_ms", [500, 5_000, 45_000])
def test_every_call_ends_by_its_deadline_with_all_brokers_silent(timeout_ms: float, warm: bool) -> None:
    simulation = Simulation(7)
    late: dict[str, float] = {}

    async def timed(client: Client, name: str) -> None:
        start = simulation.time()
        try:
            await calls(client, timeout_ms)[name]()
        except DeadlineError:
            pass
        took = simulation.time() - start
        limit = 2.0 if name.startswith("version") else timeout_ms / 1000
        if took > limit + SLACK:
            late[name] = took

    async def main() -> None:
        async with Cluster(brokers=3) as kafka:
            await kafka.create_topic("t", partitions=1)
            client = Client(bootstrap_servers=kafka.bootstrap_servers, request_timeout_ms=2_000)
            await client.start()
            if warm:
                for name, call in calls(client, 5_000).items():
                    with pytest.raises(UnknownTopicError) if name == "a topic" else nullcontext():
                        await call()
            silence(simulation, kafka, 0, 1, 2)
            await asyncio.gather(*(timed(client, name) for name in calls(client, 0)))
            start = simulation.time()
            await client.close(timeout_ms=1_000)
            if simulation.time() - start > 1 + SLACK:
                late["close"] = simulation.time() - start

    simulation.run(main())
    assert not late


def test_a_full_socket_delays_neither_a_call_nor_closing() -> None:
    simulation = Simulation(3)

    async def main() -> tuple[float, float]:
        async with Cluster(brokers=1) as kafka:
            await kafka.create_topic("t", partitions=1)
            client = Client(bootstrap_servers=kafka.bootstrap_servers)
            await client.start()
            await client.metadata(["t"])
            silence(simulation, kafka, 0)
            data = [PartitionProduceData(index=0, records=bytes(1 << 24))]
            request = ProduceRequest(acks=1, timeout_ms=1, topic_data=[TopicProduceData(name="t", partition_data=data)])
            start = simulation.time()
            with pytest.raises(DeadlineError):
                await client.request(request, timeout_ms=3_000, max_version=12)
            called = simulation.time()
            await client.close(timeout_ms=1_000)
            return called - start, simulation.time() - called

    call, close = simulation.run(main())
    assert call <= 3 + SLACK
    assert close <= 1 + SLACK


def test_unused_topics_leave_the_metadata() -> None:
    """Topics that were only looked up leave. A consumer's topics stay, and so do topics in use."""
    simulation = Simulation(2)
    names = {f"t{number}" for number in range(50)}

    async def main() -> None:
        async with Cluster(brokers=1) as kafka:
            for name in (*names, "used", "kept"):
                await kafka.create_topic(name, partitions=1)
            options: ConnectionOptions = {
                "bootstrap_servers": kafka.bootstrap_servers,
                "metadata_max_age_ms": 10_000,
                "metadata_max_idle_ms": 60_000,
            }
            last_used = {"used": 0.0}
            config = ClusterConfig.parse(options)
            async with ClusterClient(config, lambda name: last_used.get(name, 0.0)) as cluster:
                await cluster.topics([*names, "used"], keep=False)
                await cluster.topic("kept")
                await cluster.topic("kept", keep=False)
                for _ in range(5):
                    await asyncio.sleep(10)
                    last_used["used"] = simulation.time()
                assert cluster.snapshot.topics.keys() == names | {"used", "kept"}
                for _ in range(3):
                    await asyncio.sleep(10)
                    last_used["used"] = simulation.time()
                assert cluster.snapshot.topics.keys() == {"used", "kept"}
                assert (await cluster.topic("t1", keep=False)).name == "t1"
                await cluster.request(DeleteTopicsRequest(topic_names=["t1"], timeout_ms=1), max_version=5)
                requested: list[set[str | None]] = []

                async def look(call: Any, serve: Any) -> Any:
                    requested.append({topic.name for topic in call.request.topics})
                    return await serve(call.request)

                kafka.faults.intercept(MetadataRequest, look)
                await asyncio.sleep(180)
                assert requested[-1] == cluster.snapshot.topics.keys() == {"kept"}
                assert {"kept", "t1", "used"} in requested, "a deleted one may come back as long as it is in use"

    simulation.run(main())


def test_an_unreachable_cluster_is_logged_periodically(caplog: pytest.LogCaptureFixture) -> None:
    """A single line would be overlooked, and one per attempt would fill the log."""
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(brokers=1) as kafka:
            config = {"bootstrap_servers": kafka.bootstrap_servers, "request_timeout_ms": 1_000}
            async with ClusterClient(ClusterConfig.parse(config)) as cluster:
                await kafka.stop_broker(0)
                cluster.metadata.invalidate("a test")
                await asyncio.sleep(600)
                await kafka.start_broker(0)
                await cluster.metadata.wait_for_update(cluster.snapshot.generation)

    with caplog.at_level(logging.INFO, "aiokproto.cluster"):
        simulation.run(main())
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert 10 <= len(warnings) <= 30
    assert "could not be refreshed for 5" in warnings[-1].getMessage()
    assert "refreshed again after 60" in caplog.records[-1].getMessage()
