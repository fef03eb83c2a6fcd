"""Groups of the consumer protocol (KIP-848), request by request, on the embedded broker and on real Kafka."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiokproto.codec.messages.consumer_group_describe import DescribedGroup
from aiokproto.codec.messages.delete_groups import DeleteGroupsRequest
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.codec.messages.describe_groups import DescribeGroupsRequest
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokproto.codec.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from aiokproto.consumer import Consumer
from aiokproto.error_codes import ErrorCode
from aiokproto.types import TopicPartition
from tests.behaviour.coordinator import coordinator
from tests.behaviour.epoch_members import ConsumerMember, until
from tests.clusters import BehaviourCluster
from tests.kafka.config import HEARTBEAT_MS

GROUP_RESOURCE = 32


async def test_members_share_the_partitions(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=4)
    async with coordinator(cluster, topic) as at:
        first, second = (ConsumerMember(at, name, subscribed_topic_names=[topic]) for name in ("first", "second"))
        await until(lambda: first.partitions == [0, 1, 2, 3], first)
        response = await first.beat()
        assert (response.member_id, response.heartbeat_interval_ms, response.assignment) == (
            "first",
            HEARTBEAT_MS,
            None,
        )
        kept: list[int] = []
        while len(second.partitions) < 2:
            for member in (first, second):
                await member.beat()
                assert not set(first.partitions) & set(second.partitions), "a partition has one owner"
            kept = first.partitions
        await until(lambda: first.epoch == second.epoch, first, second)
        assert sorted(kept + second.partitions) == [0, 1, 2, 3]
        described = await at.describe()
        assert (described.group_state, described.assignor_name) == ("Stable", "uniform")
        assert described.group_epoch == described.assignment_epoch == first.epoch
        assert described.authorized_operations == 3400
        for seen in described.members:
            member = {"first": first, "second": second}[seen.member_id]
            assert (seen.member_epoch, seen.subscribed_topic_names, seen.member_type) == (member.epoch, [topic], 1)
            (mine,) = seen.assignment.topic_partitions
            assert (mine.topic_name, sorted(mine.partitions)) == (topic, member.partitions)
            assert seen.target_assignment == seen.assignment
        await second.leave()
        await until(lambda: first.partitions == [0, 1, 2, 3], first)
        await first.leave()
        empty = await at.describe()
        assert (empty.group_state, empty.members) == ("Empty", [])
        assert empty.group_epoch == empty.assignment_epoch


async def test_the_range_assignor_can_be_chosen(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=5)
    async with coordinator(cluster, topic) as at:
        fields: dict[str, Any] = {"subscribed_topic_names": [topic], "server_assignor": "range"}
        first, second = ConsumerMember(at, "1", **fields), ConsumerMember(at, "2", **fields)
        await until(lambda: (first.partitions, second.partitions) == ([0, 1, 2], [3, 4]), first, second)
        assert (await at.describe()).assignor_name == "range"


JOIN: dict[str, Any] = {"rebalance_timeout_ms": 1000, "subscribed_topic_names": ["x"], "topic_partitions": []}


@pytest.mark.parametrize(
    ("member_id", "epoch", "fields", "error"),
    [
        ("", 0, JOIN, ErrorCode.INVALID_REQUEST),
        (" ", 3, {}, ErrorCode.INVALID_REQUEST),
        ("m", 0, {}, ErrorCode.INVALID_REQUEST),
        ("m", 0, JOIN | {"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ("m", 0, JOIN | {"topic_partitions": None}, ErrorCode.INVALID_REQUEST),
        ("m", 0, JOIN | {"subscribed_topic_names": None}, ErrorCode.INVALID_REQUEST),
        ("m", 0, JOIN | {"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ("m", 0, JOIN | {"rack_id": " "}, ErrorCode.INVALID_REQUEST),
        ("m", 0, JOIN | {"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ("m", 0, JOIN | {"server_assignor": "sticky"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ("m", 0, JOIN | {"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ("m", 0, JOIN | {"subscribed_topic_regex": r"(a)\1"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ("m", 0, JOIN | {"subscribed_topic_regex": "a(?!b)"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ("m", 0, JOIN | {"subscribed_topic_regex": "a++"}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ("m", -2, {}, ErrorCode.INVALID_REQUEST),
        ("m", -3, {}, ErrorCode.INVALID_REQUEST),
        ("m", 5, {}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m", -1, {}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("m", -2, {"instance_id": "i"}, ErrorCode.UNKNOWN_MEMBER_ID),
        ("known", 9, {}, ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
async def test_invalid_heartbeats_are_refused(
    cluster: BehaviourCluster, topic: str, member_id: str, epoch: int, fields: dict[str, Any], error: ErrorCode
) -> None:
    async with coordinator(cluster, topic) as at:
        await ConsumerMember(at, "known", subscribed_topic_names=[topic]).beat()
        response = await at.heartbeat(member_id, epoch, **fields)
        assert ErrorCode(response.error_code) is error
        assert response.error_message
        assert (response.member_id, response.member_epoch, response.assignment) == (None, 0, None)


async def test_a_heartbeat_for_an_unknown_group_is_refused(cluster: BehaviourCluster, topic: str) -> None:
    async with coordinator(cluster, topic) as at:
        response = await at.heartbeat("m", 5)
        assert ErrorCode(response.error_code) is ErrorCode.GROUP_ID_NOT_FOUND
        assert response.error_message


async def test_in_v0_the_coordinator_can_generate_the_member_id(cluster: BehaviourCluster, topic: str) -> None:
    async with coordinator(cluster, topic) as at:
        response = await at.heartbeat("", 0, version=0, **JOIN)
        assert response.error_code == 0
        assert response.member_id


async def test_a_static_member_leaves_temporarily(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    async with coordinator(cluster, topic) as at:
        before = ConsumerMember(at, "before", instance_id="i", subscribed_topic_names=[topic])
        await until(lambda: before.partitions == [0, 1], before)
        epoch = before.epoch
        fields = JOIN | {"subscribed_topic_names": [topic], "instance_id": "i"}
        assert (await at.heartbeat("after", 0, **fields)).error_code == ErrorCode.UNRELEASED_INSTANCE_ID
        assert (await at.heartbeat("after", epoch, instance_id="i")).error_code == ErrorCode.FENCED_INSTANCE_ID
        await before.leave(-2)
        after = ConsumerMember(at, "after", instance_id="i", subscribed_topic_names=[topic])
        await after.beat()
        assert (after.epoch, after.partitions) == (epoch, [0, 1])


async def test_regular_expressions_are_resolved(cluster: BehaviourCluster, topic: str) -> None:
    """Patterns match whole names, and topics that are created later."""
    await cluster.create_topic(f"{topic}-1", partitions=2)
    await cluster.create_topic(f"{topic}-10", partitions=3)
    async with coordinator(cluster, topic) as at:
        member = ConsumerMember(at, "m", subscribed_topic_regex=f"{topic}-[0-9]")
        await until(lambda: bool(member.owned), member)
        assert member.owned.keys() == {await at.topic_id(f"{topic}-1")}
        (described,) = (await at.describe()).members
        assert (described.subscribed_topic_names, described.subscribed_topic_regex) == ([], f"{topic}-[0-9]")


async def test_partitions_that_are_added_are_assigned(cluster: BehaviourCluster, topic: str) -> None:
    """The coordinator notices a new topic without a request for it."""
    async with coordinator(cluster, topic) as at:
        member = ConsumerMember(at, "m", subscribed_topic_names=[topic])
        await member.beat()
        assert member.owned == {}
        await cluster.create_topic(topic, partitions=3)
        await until(lambda: member.partitions == [0, 1, 2], member)


async def test_offset_commits_are_checked_against_the_member_epoch(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    async with coordinator(cluster, topic) as at:
        assert await at.commit("m", 1, topic) is ErrorCode.GROUP_ID_NOT_FOUND
        assert await at.commit("m", 1, topic, version=8) is ErrorCode.ILLEGAL_GENERATION
        member, other = (ConsumerMember(at, name, subscribed_topic_names=[topic]) for name in ("m", "n"))
        await until(lambda: member.partitions == [0, 1], member)
        assigned_in = member.epoch
        await until(lambda: len(other.partitions) == 1, member, other)
        (mine,) = member.partitions
        assert member.epoch > assigned_in
        assert await at.commit("m", member.epoch, topic, mine) is ErrorCode.NONE
        assert await at.commit("m", assigned_in, topic, mine) is ErrorCode.NONE, "it has owned the partition since then"
        assert await at.commit("m", assigned_in, topic, 1 - mine) is ErrorCode.STALE_MEMBER_EPOCH
        assert await at.commit("m", member.epoch + 1, topic, mine) is ErrorCode.STALE_MEMBER_EPOCH
        assert await at.commit("m", member.epoch, topic, mine, version=8) is ErrorCode.UNSUPPORTED_VERSION
        assert await at.commit("unknown", 1, topic) is ErrorCode.UNKNOWN_MEMBER_ID
        assert await at.commit("", -1, topic) is ErrorCode.UNKNOWN_MEMBER_ID
        assert await at.commit("m", member.epoch, topic, 0, offset=11) is ErrorCode.NONE
        assert await at.fetch("m", member.epoch, topic) == 11
        assert await at.fetch(None, -1, topic) == 11
        assert await at.fetch("m", member.epoch + 1, topic) is ErrorCode.STALE_MEMBER_EPOCH
        assert await at.fetch("unknown", 1, topic) is ErrorCode.UNKNOWN_MEMBER_ID
        await other.leave()
        await member.leave()
        assert await at.commit("", -1, topic, offset=12) is ErrorCode.NONE, "the group has no members"


async def test_groups_are_listed_by_type_and_deleted_when_empty(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    async with coordinator(cluster, topic) as at:
        member = ConsumerMember(at, "m", subscribed_topic_names=[topic])
        await until(lambda: member.partitions == [0], member)
        assert await at.commit("m", member.epoch, topic) is ErrorCode.NONE
        assert (await at.listed("consumer"))[topic] == ("consumer", "Stable")
        assert topic not in await at.listed("classic")
        assert topic in await at.listed()
        classic = await at.ask(DescribeGroupsRequest(groups=[topic]), lambda response: response.groups[0].error_code)
        assert (classic.groups[0].error_code, classic.groups[0].group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")

        async def delete_offset() -> int:
            requested_topic = OffsetDeleteRequestTopic(
                name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
            )
            request = OffsetDeleteRequest(group_id=topic, topics=[requested_topic])
            response = await at.ask(request, lambda response: response.error_code)
            return response.error_code or response.topics[0].partitions[0].error_code

        async def delete() -> int:
            request = DeleteGroupsRequest(groups_names=[topic])
            return (await at.ask(request, lambda response: response.results[0].error_code)).results[0].error_code

        assert await delete_offset() == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        assert await delete() == ErrorCode.NON_EMPTY_GROUP
        await member.leave()
        assert await delete_offset() == 0
        assert await at.fetch(None, -1, topic) == -1
        assert await delete() == 0
        assert await delete() == ErrorCode.GROUP_ID_NOT_FOUND
        assert (await at.describe()).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_group_can_have_its_own_configs(cluster: BehaviourCluster, topic: str) -> None:
    async with coordinator(cluster, topic) as at:
        member = ConsumerMember(at, "m", subscribed_topic_names=[topic])
        assert (await member.beat()).heartbeat_interval_ms == HEARTBEAT_MS

        async def alter(name: str, value: str) -> int:
            change = AlterableConfig(name=name, config_operation=0, value=value)
            resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=topic, configs=[change])
            request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
            response = await at.ask(request, lambda response: response.responses[0].error_code)
            return response.responses[0].error_code

        async def option(name: str) -> tuple[str | None, int]:
            resource = DescribeConfigsResource(
                resource_type=GROUP_RESOURCE, resource_name=topic, configuration_keys=[name]
            )
            response = await at.ask(
                DescribeConfigsRequest(resources=[resource]), lambda response: response.results[0].error_code
            )
            (found,) = response.results[0].configs
            return found.value, found.config_source

        assert await option("consumer.heartbeat.interval.ms") == (str(HEARTBEAT_MS), 4)
        assert await alter("consumer.heartbeat.interval.ms", "7000") == 0
        while await option("consumer.heartbeat.interval.ms") != ("7000", 8):
            await asyncio.sleep(0)
        while (await member.beat()).heartbeat_interval_ms != 7000:
            await asyncio.sleep(0)
        for name, value in (
            ("consumer.heartbeat.interval.ms", "1"),
            ("consumer.session.timeout.ms", "7000000"),
            ("consumer.session.timeout.ms", "soon"),
            ("no.such.option", "1"),
        ):
            assert await alter(name, value) == ErrorCode.INVALID_CONFIG, name


async def test_a_classic_consumer_shares_a_group_with_consumer_protocol_members(
    cluster: BehaviourCluster, topic: str
) -> None:
    """The group becomes a consumer group when a consumer member joins, and classic again when the last one has left."""
    await cluster.create_topic(topic, partitions=4)
    options: dict[str, Any] = {
        "group_id": topic,
        "heartbeat_interval_ms": 50,
        "partition_assignment_strategy": "cooperative-sticky",
    }
    async with (
        coordinator(cluster, topic) as at,
        Consumer(topic, bootstrap_servers=cluster.bootstrap_servers, **options) as consumer,
    ):

        async def go_on(*members: ConsumerMember, until: Callable[[], bool]) -> None:
            while not until():
                assert await consumer.poll(timeout_ms=20) == []
                for member in members:
                    await member.beat()

        await go_on(until=lambda: len(consumer.assignment()) == 4)
        assert (await at.listed())[topic][0] == "classic"
        member = ConsumerMember(at, "m", subscribed_topic_names=[topic])
        await go_on(member, until=lambda: len(consumer.assignment()) == 2 and len(member.partitions) == 2)
        read = {partition.partition for partition in consumer.assignment()}
        assert sorted([*read, *member.partitions]) == [0, 1, 2, 3]
        described = await at.describe()
        assert sorted(each.member_type for each in described.members) == [0, 1]
        await consumer.commit({TopicPartition(topic, min(read)): 1})
        await member.leave()
        await go_on(until=lambda: len(consumer.assignment()) == 4)
        assert (await at.listed())[topic][0] == "classic"


def by_member_id(group: DescribedGroup) -> DescribedGroup:
    group.members.sort(key=lambda member: member.member_id)
    return group


@pytest.mark.exclusive
async def test_members_survive_a_change_of_coordinator(cluster3: BehaviourCluster, topic: str) -> None:
    await cluster3.create_topic(topic, partitions=4, replication=3)
    async with coordinator(cluster3, topic) as at:
        first = ConsumerMember(at, "first", subscribed_topic_names=[topic])
        second = ConsumerMember(at, "second", instance_id="i", subscribed_topic_names=[topic])
        await until(lambda: (len(first.partitions), len(second.partitions)) == (2, 2), first, second)
        await until(lambda: first.epoch == second.epoch, first, second)
        described = by_member_id(await at.describe())
        await cluster3.move_leader("__consumer_offsets", await at.partition())
        for member in (first, second):
            epoch, partitions = member.epoch, member.partitions
            await member.beat()
            assert (member.epoch, member.partitions) == (epoch, partitions)
        # A coordinator describes what is committed. The high watermark of a new leader is behind its log until its
        # followers have fetched from it, and so may lack the last records that the members were given.
        while by_member_id(await at.describe()) != described:
            pass
