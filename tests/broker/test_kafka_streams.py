"""Kafka Streams itself, in a streams group of the embedded broker, and in one group with a member of this library."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from aiokproto.broker import Cluster
from aiokproto.client import Client
from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest, TopicInfo
from aiokproto.config import ClusterConfig
from aiokproto.consumer import Consumer
from aiokproto.group.streams_member import StreamsListener, StreamsMember
from aiokproto.group.streams_topology import InternalTopic, StreamsTask, StreamsTopology, Subtopology
from aiokproto.producer import Producer
from tests.broker.conftest import THIRD_PARTY
from tests.clusters import BehaviourCluster
from tests.java.compiler import command
from tests.timeouts import LONG_TIMEOUT
from tools.setup.project import tools_jars

APPLICATION = "word-count"
SECONDS = 2 * LONG_TIMEOUT


@pytest.fixture
def word_count() -> list[str]:
    """Return the command that counts words. Its arguments follow."""
    if not any(tools_jars().glob("kafka-streams-*.jar")):
        pytest.skip("Kafka Streams is not there: `make kafka` fetches it")
    return command(THIRD_PARTY / "streams", "WordCount", jars=tools_jars())


@asynccontextmanager
async def running(command: list[str]) -> AsyncIterator[None]:
    """Run a program until its stdin is closed, when it reports that it shut down cleanly."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield
        out, errors = await asyncio.wait_for(process.communicate(b""), SECONDS)
        assert out.decode().split() == ["closed"], errors.decode()[-2000:]
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def counted(consumer: Consumer, wanted: dict[str, int]) -> None:
    """Read until the newest count of each word is the expected one."""
    found: dict[str, int] = {}
    async for record in consumer:
        found[(record.key or b"").decode()] = int(record.value or b"")
        if found == wanted:
            return


async def described(cluster: Cluster) -> DescribedGroup:
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        request = StreamsGroupDescribeRequest(group_ids=[APPLICATION], include_authorized_operations=False)
        return (await client.request(request, key=APPLICATION)).groups[0]


@pytest.mark.kafka
@pytest.mark.java
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
async def test_kafka_streams_counts_words(word_count: list[str], guarantee: str, tmp_path: Path) -> None:
    async with Cluster(2) as cluster:
        for topic in ("lines", "counts"):
            await cluster.create_topic(topic, partitions=2)
        servers = cluster.bootstrap_servers
        async with (
            Producer(bootstrap_servers=servers) as producer,
            Consumer(
                "counts", bootstrap_servers=servers, auto_offset_reset="earliest", isolation_level="read_committed"
            ) as consumer,
            running([*word_count, servers, APPLICATION, guarantee, str(tmp_path)]),
        ):
            for line in (b"a b a", b"b c", b"a"):
                await producer.send("lines", line)
            await asyncio.wait_for(counted(consumer, {"a": 3, "b": 2, "c": 1}), SECONDS)
            # One of its threads may do all the work before the other one joins.
            while len((group := await described(cluster)).members) < 2 or group.group_state != "Stable":
                pass
            tasks = [
                (each.subtopology_id, index)
                for member in group.members
                for each in member.assignment.active_tasks
                for index in each.partitions
            ]
            assert (len(group.members), sorted(tasks)) == (2, [("0", 0), ("0", 1), ("1", 0), ("1", 1)])
            # The new coordinator reads the group from the log, and no member has to join again.
            await cluster.move_coordinator(APPLICATION)
            await producer.send("lines", b"a a c")
            await asyncio.wait_for(counted(consumer, {"a": 5, "c": 2}), SECONDS)
            assert (await described(cluster)).group_epoch == group.group_epoch


class Taker(StreamsListener):
    """Takes tasks without processing records."""

    def __init__(self) -> None:
        self.tasks: set[StreamsTask] = set()

    async def assigned(self, tasks: frozenset[StreamsTask]) -> None:
        self.tasks |= tasks

    async def revoked(self, tasks: frozenset[StreamsTask]) -> None:
        self.tasks -= tasks


def internal(topics: list[TopicInfo]) -> tuple[InternalTopic, ...]:
    """Return internal topics as a member describes them. The coordinator decides their sizes."""
    return tuple(
        InternalTopic(
            topic.name,
            replication_factor=topic.replication_factor,
            config={option.key: option.value for option in topic.topic_configs},
        )
        for topic in topics
    )


def topology_of(group: DescribedGroup) -> StreamsTopology:
    """Return the topology with which the members of a group have joined."""
    assert group.topology is not None
    return StreamsTopology(
        tuple(
            Subtopology(
                each.subtopology_id,
                tuple(each.source_topics),
                internal(each.repartition_source_topics),
                tuple(each.repartition_sink_topics),
                internal(each.state_changelog_topics),
            )
            for each in group.topology.subtopologies or ()
        ),
        group.topology.epoch,
    )


@pytest.mark.kafka
@pytest.mark.java
async def test_a_python_member_shares_a_group_with_kafka_streams(
    cluster: BehaviourCluster, topic: str, word_count: list[str], tmp_path: Path
) -> None:
    lines, counts, servers = f"{topic}-lines", f"{topic}-counts", cluster.bootstrap_servers
    for name in (lines, counts):
        await cluster.create_topic(name, partitions=2)

    async def group() -> DescribedGroup:
        async with Client(bootstrap_servers=servers) as client:
            request = StreamsGroupDescribeRequest(group_ids=[topic])
            return (await client.request(request, key=topic)).groups[0]

    async def settled(members: int) -> DescribedGroup:
        while len((found := await group()).members) != members or found.group_state != "Stable":
            pass
        return found

    async with (
        Producer(bootstrap_servers=servers) as producer,
        Consumer(counts, bootstrap_servers=servers, auto_offset_reset="earliest") as consumer,
        ClusterClient(ClusterConfig.parse({"bootstrap_servers": servers})) as client,
        running([*word_count, servers, topic, "at_least_once", str(tmp_path), lines, counts]),
    ):
        await producer.send(lines, b"a b a")
        await asyncio.wait_for(counted(consumer, {"a": 2, "b": 1}), SECONDS)
        topology = topology_of(await asyncio.wait_for(settled(2), SECONDS))
        taker = Taker()
        member = StreamsMember(client, topic, topology, taker)
        running_member = asyncio.create_task(member.run())
        try:
            shared = asyncio.create_task(settled(3))
            await asyncio.wait([shared, running_member], timeout=SECONDS, return_when=asyncio.FIRST_COMPLETED)
            assert not running_member.done(), running_member.exception()
            tasks = {
                seen.member_id: {
                    (each.subtopology_id, index) for each in seen.assignment.active_tasks for index in each.partitions
                }
                for seen in shared.result().members
            }
            mine = tasks.pop(member.member_id)
            assert mine == {(task.subtopology, task.partition) for task in taker.tasks} != set()
            theirs = set[tuple[str, int]]().union(*tasks.values())
            assert theirs
            assert not mine & theirs
            assert mine | theirs == {(name, index) for name in ("0", "1") for index in range(2)}
        finally:
            running_member.cancel()
            await asyncio.wait([running_member])
            await member.leave()
        # The Java members take the tasks back, and process what came in the meantime.
        await producer.send(lines, b"b c")
        await asyncio.wait_for(counted(consumer, {"b": 2, "c": 1}), SECONDS)
