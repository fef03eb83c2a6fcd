"""A member of a share group, as a share consumer uses it: on the embedded broker and on real Kafka."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

import pytest

from aiokproto.client import Client
from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from aiokproto.codec.messages.share_group_describe import ShareGroupDescribeRequest
from aiokproto.errors import BrokerError, KafkaError
from aiokproto.group.share_member import ShareMember
from aiokproto.types import TopicPartition
from tests.behaviour.running_member import RunningMember, running
from tests.clusters import BehaviourCluster

Partitions = frozenset[TopicPartition]


class Reader(RunningMember):
    """A member, and what it was assigned last."""

    def __init__(self, client: ClusterClient, group: str, rack: str = "") -> None:
        super().__init__()
        self.assignments: list[Partitions] = []
        self.member = ShareMember(client, group, rack, self._assigned)
        self.start(self.member)

    def _assigned(self, partitions: Partitions) -> None:
        self.assignments.append(partitions)
        self._news.set()

    @property
    def assigned(self) -> Partitions:
        return self.assignments[-1] if self.assignments else frozenset()

    def noted(self) -> object:
        return sorted(self.assigned)


def reader(cluster: BehaviourCluster, group: str, rack: str = "") -> AbstractAsyncContextManager[Reader]:
    return running(cluster, lambda client: Reader(client, group, rack))


def all_of(topic: str, count: int) -> Partitions:
    return frozenset(TopicPartition(topic, number) for number in range(count))


async def members_of(cluster: BehaviourCluster, group: str) -> dict[str, tuple[str | None, list[str]]]:
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        response = await client.request(ShareGroupDescribeRequest(group_ids=[group]))
    (described,) = response.groups
    return {each.member_id: (each.rack_id, each.subscribed_topic_names) for each in described.members}


async def test_a_member_is_assigned_the_partitions_of_its_topics_and_leaves(
    cluster: BehaviourCluster, topic: str
) -> None:
    await cluster.create_topic(topic, partitions=3)
    async with reader(cluster, topic, rack="r1") as one:
        assert (one.member.member_epoch, len(one.member.member_id)) == (0, 22)
        one.member.set_topics(frozenset({topic}))
        await one.until(lambda: one.assigned == all_of(topic, 3))
        assert one.member.member_epoch > 0
        assert one.member.problem == ""
        assert await members_of(cluster, topic) == {one.member.member_id: ("r1", [topic])}
    assert one.member.member_epoch == -1
    assert await members_of(cluster, topic) == {}


async def test_members_that_join_and_leave_change_the_assignment(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=4)
    async with reader(cluster, topic) as one:
        one.member.set_topics(frozenset({topic}))
        await one.until(lambda: one.assigned == all_of(topic, 4))
        async with reader(cluster, topic) as other:
            other.member.set_topics(frozenset({topic}))
            await other.until(lambda: len(other.assigned) == 2)
            await one.until(lambda: one.assigned == all_of(topic, 4) - other.assigned)
        await one.until(lambda: one.assigned == all_of(topic, 4))


async def test_the_subscription_can_change_and_end(cluster: BehaviourCluster, topic: str) -> None:
    second = f"{topic}-second"
    await cluster.create_topic(topic)
    await cluster.create_topic(second)
    async with reader(cluster, topic) as one:
        one.member.set_topics(frozenset({topic}))
        await one.until(lambda: one.assigned == all_of(topic, 1))
        one.member.set_topics(frozenset({topic, second}))
        await one.until(lambda: one.assigned == all_of(topic, 1) | all_of(second, 1))
        one.member.set_topics(frozenset())
        await one.until(lambda: one.assigned == frozenset())
        assert await members_of(cluster, topic) == {}
        one.member.set_topics(frozenset({second}))
        await one.until(lambda: one.assigned == all_of(second, 1))


async def test_a_topic_that_is_created_or_grows_later_is_assigned(cluster: BehaviourCluster, topic: str) -> None:
    async with reader(cluster, topic) as one:
        one.member.set_topics(frozenset({topic}))
        await cluster.create_topic(topic, partitions=1)
        await one.until(lambda: one.assigned == all_of(topic, 1))
        async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
            grown = CreatePartitionsTopic(name=topic, count=3, assignments=None)
            response = await client.request(CreatePartitionsRequest(topics=[grown], timeout_ms=30_000))
            assert response.results[0].error_code == 0, response
        await one.until(lambda: one.assigned == all_of(topic, 3))


async def test_a_member_that_the_group_refuses_says_why(cluster: BehaviourCluster) -> None:
    async with reader(cluster, "") as one:
        one.member.set_topics(frozenset({"t"}))
        with pytest.raises(BrokerError, match="group ''"):
            await one.until(lambda: False)
        assert isinstance(one.task.exception(), KafkaError)
