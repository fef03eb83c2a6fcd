"""A member of a streams group (KIP-1071), as a stream processor uses it: on the embedded broker and on real Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from aiokproto.client import Client
from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest
from aiokproto.errors import CommitError, GroupError
from aiokproto.group.streams_member import StreamsListener, StreamsMember
from aiokproto.group.streams_topology import (
    EndpointPartitions,
    InternalTopic,
    StatusCode,
    StreamsEndpoint,
    StreamsStatus,
    StreamsTask,
    StreamsTopology,
    Subtopology,
    TaskRole,
)
from aiokproto.types import OffsetAndMetadata, TopicPartition
from tests.behaviour.running_member import RunningMember, running
from tests.clusters import BehaviourCluster

Tasks = frozenset[StreamsTask]
ACTIVE = TaskRole.ACTIVE


def counting(topic: str, epoch: int = 0) -> StreamsTopology:
    """Words are repartitioned, and counted in a store."""
    words = f"{topic}-words"
    return StreamsTopology(
        (
            Subtopology("0", source_topics=(topic,), repartition_sinks=(words,)),
            Subtopology(
                "1",
                repartition_sources=(InternalTopic(words),),
                changelogs=(InternalTopic(f"{topic}-counts", config={"cleanup.policy": "compact"}),),
            ),
        ),
        epoch,
    )


ALL = frozenset(StreamsTask(ACTIVE, name, index) for name in ("0", "1") for index in range(2))


class Processor(RunningMember, StreamsListener):
    """A member, and what has happened to it."""

    def __init__(self, client: ClusterClient, topic: str, **options: Any) -> None:
        super().__init__()
        self.events: list[tuple[str, Tasks]] = []
        self.statuses: list[StatusCode] = []
        self.endpoints: Mapping[StreamsEndpoint, EndpointPartitions] = {}
        self.held: set[StreamsTask] = set()
        self.member = StreamsMember(client, topic, options.pop("topology", counting(topic)), self, **options)
        self.start(self.member)

    def noted(self) -> object:
        return self.events

    def _note(self, event: str, tasks: Tasks) -> None:
        self.events.append((event, tasks))
        self._news.set()

    async def assigned(self, tasks: Tasks) -> None:
        assert self.held.isdisjoint(tasks)
        self.held |= tasks
        self._note("assigned", tasks)

    async def revoked(self, tasks: Tasks) -> None:
        assert tasks <= self.held
        self.held -= tasks
        self._note("revoked", tasks)

    async def lost(self, tasks: Tasks) -> None:
        self.held -= tasks
        self._note("lost", tasks)

    def status_changed(self, statuses: tuple[StreamsStatus, ...]) -> None:
        self.statuses = [each.code for each in statuses]
        self._news.set()

    def endpoints_changed(self, endpoints: Mapping[StreamsEndpoint, EndpointPartitions]) -> None:
        self.endpoints = endpoints
        self._news.set()


def processor(cluster: BehaviourCluster, topic: str, **options: Any) -> AbstractAsyncContextManager[Processor]:
    return running(cluster, lambda client: Processor(client, topic, **options))


async def described(cluster: BehaviourCluster, topic: str) -> DescribedGroup:
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        response = await client.request(StreamsGroupDescribeRequest(group_ids=[topic]), key=topic)
    return response.groups[0]


async def test_a_member_gets_the_tasks_of_its_topology(cluster: BehaviourCluster, topic: str) -> None:
    """It gets tasks even if the source topic is created later. Until then, the status says what is missing."""
    async with processor(cluster, topic, process_id="p1", rack="r1", client_tags={"zone": "a"}) as one:
        await one.until(lambda: one.statuses == [StatusCode.MISSING_SOURCE_TOPICS])
        assert topic in one.member.problem
        await cluster.create_topic(topic, partitions=2)
        await one.until(lambda: one.held == ALL)
        assert one.member.tasks == ALL
        assert one.member.inputs == {TopicPartition(name, at) for name in (topic, f"{topic}-words") for at in range(2)}
        group = await described(cluster, topic)
        (seen,) = group.members
        assert (seen.member_id, seen.process_id, seen.rack_id) == (one.member.member_id, "p1", "r1")
        assert {tag.key: tag.value for tag in seen.client_tags} == {"zone": "a"}
        assert one.member.metadata[:3] == (topic, seen.member_epoch, seen.member_id)
    assert (await described(cluster, topic)).members == []


async def test_a_task_has_one_owner_while_members_come_and_go(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    async with processor(cluster, topic) as one:
        await one.until(lambda: one.held == ALL)
        async with processor(cluster, topic) as other:
            await other.until(lambda: len(other.held) == 2)
            assert one.held == ALL - other.held
            assert [event for event, tasks in one.events if tasks and event != "assigned"] == ["revoked"]
        await one.until(lambda: one.held == ALL)
        assert "lost" not in [event for event, _ in one.events]


async def test_a_member_commits_the_inputs_of_its_active_tasks(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    async with processor(cluster, topic) as one:
        await one.until(lambda: one.held == ALL)
        mine, other = TopicPartition(topic, 0), TopicPartition("another", 0)
        failures = await one.member.commit({mine: 3, other: OffsetAndMetadata(3)}, 10_000)
        assert list(failures) == [other]
        assert isinstance(failures[other], CommitError)
        assert "not assigned" in str(failures[other])


async def test_members_learn_where_partitions_can_be_queried(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    async with processor(cluster, topic) as one:
        # Kafka 4.4 fails on endpoints while it does not know the topics: a member without one has to join first.
        await one.until(lambda: one.held == ALL)
        async with processor(cluster, topic, endpoint=StreamsEndpoint("h", 7)) as other:
            await other.until(lambda: len(other.held) == 2)
            await one.until(lambda: bool(one.endpoints))
            where = StreamsEndpoint("h", 7)
            await one.until(lambda: one.endpoints[where].active == other.member.inputs)
            assert one.member.endpoints == one.endpoints


async def test_a_member_asks_all_to_end(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    async with processor(cluster, topic) as one, processor(cluster, topic) as other:
        await other.until(lambda: bool(other.held))
        one.member.request_shutdown()
        await other.until(lambda: StatusCode.SHUTDOWN_APPLICATION in other.statuses)


async def test_a_static_member_gets_its_tasks_back(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    async with processor(cluster, topic, instance_id="one") as one:
        await one.until(lambda: one.held == ALL)
    (away,) = (await described(cluster, topic)).members
    assert away.member_epoch == -2
    async with processor(cluster, topic, instance_id="one") as again:
        await again.until(lambda: again.held == ALL)


async def test_offsets_of_tasks_are_reported(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    async with processor(cluster, topic) as one:
        await one.until(lambda: one.held == ALL)
        one.member.report_offsets({("1", 0): 5}, {("1", 0): 9})
        # The next change of its tasks is acknowledged, so the heartbeats with offsets were accepted.
        async with processor(cluster, topic) as other:
            await other.until(lambda: len(other.held) == 2)


async def test_an_invalid_topology_ends_the_member(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    wrong = StreamsTopology((Subtopology("0", (topic,), changelogs=(InternalTopic(f"{topic}-c", partitions=3),)),))
    async with processor(cluster, topic, topology=wrong) as one:
        with pytest.raises(GroupError, match="STREAMS_INVALID_TOPOLOGY"):
            await one.until(lambda: False)
