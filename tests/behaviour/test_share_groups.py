"""Share groups (KIP-932): members, assignments and start offsets; on the embedded broker and real Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from aiokproto.codec.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from aiokproto.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from aiokproto.codec.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from aiokproto.codec.messages.delete_groups import DeleteGroupsRequest
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.codec.messages.describe_groups import DescribeGroupsRequest
from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokproto.codec.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from aiokproto.codec.messages.leave_group import LeaveGroupRequest, MemberIdentity
from aiokproto.codec.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from aiokproto.codec.messages.share_group_describe import DescribedGroup
from aiokproto.codec.messages.sync_group import SyncGroupRequest
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from tests.behaviour.coordinator import Coordinator, coordinator
from tests.behaviour.epoch_members import ShareMember, share_heartbeat, until
from tests.behaviour.feed import fill
from tests.behaviour.sharing import alter, alter_when_known, delete, describe, offsets
from tests.clusters import BehaviourCluster
from tests.kafka.config import HEARTBEAT_MS

GROUP_RESOURCE = 32
ALL = [0, 1, 2, 3]


# ---- members


async def test_members_do_not_share_partitions_while_there_are_enough(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=4)
    async with coordinator(cluster, topic) as at:
        first, second = ShareMember(at, "first", topic), ShareMember(at, "second", topic, rack_id="r")
        await until(lambda: first.partitions == ALL, first)
        response = await first.beat()
        assert (response.member_id, response.heartbeat_interval_ms, response.assignment) == (
            "first",
            HEARTBEAT_MS,
            None,
        )
        await until(lambda: len(second.partitions) == 2 and first.epoch == second.epoch, second, first)
        assert sorted(first.partitions + second.partitions) == ALL
        described = await describe(at)
        assert (described.group_state, described.assignor_name) == ("Stable", "simple")
        assert described.group_epoch == described.assignment_epoch == first.epoch
        assert described.authorized_operations == 3400
        racks = {}
        for seen in described.members:
            member = {"first": first, "second": second}[seen.member_id]
            racks[seen.member_id] = seen.rack_id
            assert (seen.member_epoch, seen.subscribed_topic_names) == (member.epoch, [topic])
            (mine,) = seen.assignment.topic_partitions
            assert (mine.topic_name, mine.topic_id, sorted(mine.partitions)) == (
                topic,
                await at.topic_id(topic),
                member.partitions,
            )
        assert racks == {"first": None, "second": "r"}
        await second.leave()
        await until(lambda: first.partitions == ALL, first)
        await first.leave()
        described = await describe(at)
        assert (described.group_state, described.members) == ("Empty", [])
        assert described.group_epoch == described.assignment_epoch > first.epoch


async def test_more_members_than_partitions_share_them(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    async with coordinator(cluster, topic) as at:
        members = [ShareMember(at, f"m{number}", topic) for number in range(5)]
        await until(lambda: all(member.partitions for member in members), *members)
        await until(lambda: len({member.epoch for member in members}) == 1, *members)
        read = sorted(index for member in members for index in member.partitions)
        # Each partition has three members as far as possible, so one of five has both, or isn't needed for that.
        assert {0, 1} == set(read)
        assert read.count(0) <= 3
        assert read.count(1) <= 3
        for member in members:
            await member.leave()


async def test_members_can_subscribe_to_different_topics(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    await cluster.create_topic(f"{topic}-b", partitions=2)
    async with coordinator(cluster, topic) as at:
        one = ShareMember(at, "one", topic)
        both = ShareMember(at, "both", topic, f"{topic}-b")
        ids = await at.topic_id(topic), await at.topic_id(f"{topic}-b")
        await until(lambda: both.owned.get(ids[1], []) != [] and len(one.partitions) == 1, one, both)
        assert sorted(one.owned) == [ids[0]]
        assert sorted(both.owned[ids[1]]) == [0, 1]
        assert sorted(one.owned[ids[0]] + both.owned[ids[0]]) == [0, 1]
        # The member changes its subscription, which takes effect at once.
        response = await share_heartbeat(at, "both", both.epoch, subscribed_topic_names=[topic])
        assert response.error_code == 0
        assert response.assignment is not None
        both.epoch = response.member_epoch
        both.owned = {each.topic_id: each.partitions for each in response.assignment.topic_partitions}
        await until(lambda: ids[1] not in both.owned, one, both)
        for member in (one, both):
            await member.leave()


async def test_topics_and_partitions_that_are_added_are_assigned(cluster: BehaviourCluster, topic: str) -> None:
    async with coordinator(cluster, topic) as at:
        member = ShareMember(at, "m", topic)
        assert (await member.beat()).assignment is not None
        assert member.owned == {}
        await cluster.create_topic(topic)
        await until(lambda: member.partitions == [0], member)
        grown = CreatePartitionsTopic(name=topic, count=3, assignments=None)
        request = CreatePartitionsRequest(topics=[grown], timeout_ms=9000, validate_only=False)
        assert (await (await at.connect()).ask(request)).results[0].error_code == 0
        await until(lambda: member.partitions == [0, 1, 2], member)
        # The records of the new partitions are newer than the group's subscription.
        assert await offsets(at) == {(topic, 0): (-1, -1), (topic, 1): (0, 0), (topic, 2): (0, 0)}
        await member.leave()


JOIN: dict[str, Any] = {"subscribed_topic_names": ["x"]}


@pytest.mark.parametrize(
    ("member_id", "epoch", "fields", "error"),
    [
        ("", 0, JOIN, ErrorCode.INVALID_REQUEST),
        ("m" * 37, 0, JOIN, ErrorCode.INVALID_REQUEST),
        ("m", 0, JOIN | {"group_id": " "}, ErrorCode.INVALID_REQUEST),
        ("m", 0, JOIN | {"rack_id": " "}, ErrorCode.INVALID_REQUEST),
        ("m", 0, {}, ErrorCode.INVALID_REQUEST),
        ("m", 0, {"subscribed_topic_names": []}, ErrorCode.INVALID_REQUEST),
        ("m", -2, JOIN, ErrorCode.INVALID_REQUEST),
        ("m", 1, {}, ErrorCode.GROUP_ID_NOT_FOUND),
        ("m", -1, {}, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
async def test_invalid_heartbeats_are_refused(
    cluster: BehaviourCluster, topic: str, member_id: str, epoch: int, fields: dict[str, Any], error: ErrorCode
) -> None:
    async with coordinator(cluster, topic) as at:
        response = await share_heartbeat(at, member_id, epoch, **fields)
        assert (response.error_code, response.member_id, response.assignment) == (error, None, None)


async def test_a_member_with_another_epoch_is_fenced(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    async with coordinator(cluster, topic) as at:
        member, other = ShareMember(at, "m", topic), ShareMember(at, "o", topic)
        await until(lambda: member.partitions == [0], member)
        before = member.epoch
        await until(lambda: member.epoch == other.epoch > before, other, member)
        # The response with its new epoch may have been lost.
        assert (await share_heartbeat(at, "m", before)).member_epoch == member.epoch
        for epoch in (before - 1, member.epoch + 1):
            assert (await share_heartbeat(at, "m", epoch)).error_code == ErrorCode.FENCED_MEMBER_EPOCH
        assert (await share_heartbeat(at, "n", 1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert (await share_heartbeat(at, "n", -1)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        again = await share_heartbeat(at, "m", 0, subscribed_topic_names=[topic])
        assert (again.error_code, again.member_epoch) == (0, member.epoch)
        assert again.assignment is not None
        assert [each.partitions for each in again.assignment.topic_partitions] == [[0]]
        await member.leave()
        await other.leave()


# ---- groups of other types


async def test_requests_of_other_protocols_are_refused_by_a_share_group(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    async with coordinator(cluster, topic) as at:
        member = ShareMember(at, "m", topic)
        await member.beat()
        assert (await at.listed("share"))[topic] == ("share", "Stable")
        assert topic not in await at.listed("consumer", "classic")
        wire = await at.connect()
        (classic,) = (await wire.ask(DescribeGroupsRequest(groups=[topic]))).groups
        assert (classic.error_code, classic.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
        request = ConsumerGroupDescribeRequest(group_ids=[topic], include_authorized_operations=False)
        assert (await wire.ask(request)).groups[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND
        beat = ConsumerGroupHeartbeatRequest(
            group_id=topic,
            member_id="c",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=[topic],
            topic_partitions=[],
        )
        assert (await wire.ask(beat)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        join = JoinGroupRequest(
            group_id=topic,
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        assert (await wire.ask(join)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        sync = SyncGroupRequest(group_id=topic, generation_id=1, member_id="m", assignments=[])
        assert (await wire.ask(sync)).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        alive = HeartbeatRequest(group_id=topic, generation_id=1, member_id="m")
        assert (await wire.ask(alive)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        leave = LeaveGroupRequest(group_id=topic, members=[MemberIdentity(member_id="m")])
        assert (await wire.ask(leave)).members[0].error_code == ErrorCode.UNKNOWN_MEMBER_ID
        for epoch in (-1, 1):
            for version in (8, 9):
                assert await at.commit("", epoch, topic, version=version) is ErrorCode.GROUP_ID_NOT_FOUND
        assert await at.fetch(None, -1, topic) == -1
        forget = OffsetDeleteRequestTopic(name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)])
        forgotten = await wire.ask(OffsetDeleteRequest(group_id=topic, topics=[forget]))
        assert forgotten.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert await deleted(at) is ErrorCode.NON_EMPTY_GROUP
        await member.leave()
        assert await deleted(at) is ErrorCode.NONE
        assert topic not in await at.listed("share")
        assert (await describe(at)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def deleted(at: Coordinator) -> ErrorCode:
    (result,) = (await (await at.connect()).ask(DeleteGroupsRequest(groups_names=[at.group]))).results
    return ErrorCode(result.error_code)


async def test_a_group_of_another_type_is_not_a_share_group(cluster: BehaviourCluster, topic: str) -> None:
    """The group keeps its type even without members."""
    await cluster.create_topic(topic)
    async with coordinator(cluster, topic) as at:
        assert await at.commit("", -1, topic, version=8) is ErrorCode.NONE
        for epoch, fields in ((0, {"subscribed_topic_names": [topic]}), (1, {}), (-1, {})):
            assert (await share_heartbeat(at, "m", epoch, **fields)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert (await describe(at)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert (await alter(at, topic, {0: 0})).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert (await delete(at, topic)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert await offsets(at) == {}


# ---- start offsets


async def test_start_offsets_can_be_reset_while_there_are_no_members(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=3)
    await fill(cluster, topic, 3)
    async with coordinator(cluster, topic) as at:
        assert await offsets(at) == {}
        # Kafka accepts any offset without checking the log, but no partition that does not exist.
        response = await alter_when_known(at, topic, {0: 1, 1: 7, 9: 0})
        assert response.error_code == 0
        (altered,) = response.responses
        assert altered.topic_id == await at.topic_id(topic)
        assert {each.partition_index: each.error_code for each in altered.partitions} == {
            0: 0,
            1: 0,
            9: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert await offsets(at) == {(topic, 0): (1, 2), (topic, 1): (7, -7)}
        assert await offsets(at, {topic: [0, 2], "no such topic": [0]}) == {
            (topic, 0): (1, 2),
            (topic, 2): (-1, -1),
            ("no such topic", 0): (-1, -1),
        }
        assert await offsets(at, {topic: [0]}, version=0) == {(topic, 0): (1, -1)}
        described = await describe(at)
        assert (described.group_state, described.group_epoch) == ("Empty", 1)
        member = ShareMember(at, "m", topic)
        await until(lambda: member.partitions == [0, 1, 2], member)
        assert await offsets(at) == {(topic, 0): (1, 2), (topic, 1): (7, -7), (topic, 2): (0, 0)}
        assert (await alter(at, topic, {0: 0})).error_code == ErrorCode.NON_EMPTY_GROUP
        assert (await delete(at, topic)).error_code == ErrorCode.NON_EMPTY_GROUP
        await member.leave()
        assert (await alter(at, topic, {0: 3})).error_code == 0
        assert (await offsets(at))[topic, 0] == (3, 0)
        assert (await alter(at, "no such topic", {0: 0})).responses[0].partitions[0].error_code == (
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        )


async def test_share_offsets_are_deleted_by_topic(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    await cluster.create_topic(f"{topic}-b")
    async with coordinator(cluster, topic) as at:
        assert (await delete(at, topic)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert (await alter_when_known(at, topic, {0: 5, 1: 5})).error_code == 0
        response = await delete(at, topic, f"{topic}-b", "no such topic")
        assert response.error_code == 0
        assert {each.topic_name: (each.topic_id, each.error_code) for each in response.responses} == {
            topic: (await at.topic_id(topic), 0),
            f"{topic}-b": (ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
            "no such topic": (ZERO_UUID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        }
        assert await offsets(at) == {}
        assert await offsets(at, {topic: [0]}) == {(topic, 0): (-1, -1)}
        (again,) = (await delete(at, topic)).responses
        assert again.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_an_empty_group_id_is_refused(cluster: BehaviourCluster) -> None:
    async with coordinator(cluster, "x") as at:
        await at.connect()
        at.group = ""
        assert (await alter(at, "t", {0: 0})).error_code == ErrorCode.INVALID_GROUP_ID
        assert (await delete(at, "t")).error_code == ErrorCode.INVALID_GROUP_ID
        assert await offsets(at) == {}


# ---- options


async def test_a_share_group_can_have_its_own_configs(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    async with coordinator(cluster, topic) as at:
        wire = await at.connect()

        async def change(name: str, value: str) -> ErrorCode:
            config = AlterableConfig(name=name, config_operation=0, value=value)
            resource = AlterConfigsResource(resource_type=GROUP_RESOURCE, resource_name=topic, configs=[config])
            response = await wire.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
            return ErrorCode(response.responses[0].error_code)

        async def known() -> dict[str, tuple[str | None, int]]:
            requested_resource = DescribeConfigsResource(
                resource_type=GROUP_RESOURCE, resource_name=topic, configuration_keys=None
            )
            (response,) = (await wire.ask(DescribeConfigsRequest(resources=[requested_resource]))).results
            return {each.name: (each.value, each.config_source) for each in response.configs}

        expected = {
            "share.auto.offset.reset": ("latest", 5),
            "share.heartbeat.interval.ms": (str(HEARTBEAT_MS), 4),
            "share.isolation.level": ("read_uncommitted", 5),
            "share.record.lock.duration.ms": ("30000", 5),
            "share.session.timeout.ms": ("45000", 5),
        }
        assert expected.items() <= (await known()).items()
        wanted = {
            "share.auto.offset.reset": "by_duration:PT1H",
            "share.heartbeat.interval.ms": "6000",
            "share.isolation.level": "read_committed",
            "share.record.lock.duration.ms": "20000",
            "share.session.timeout.ms": "50000",
        }
        for name, value in wanted.items():
            assert await change(name, value) is ErrorCode.NONE
        found: dict[str, tuple[str | None, int]] = {}
        while not found.items() >= {name: (value, 8) for name, value in wanted.items()}.items():
            found = await known()
        member = ShareMember(at, "m", topic)
        # A real broker describes options a moment before the group has them.
        while (await member.beat()).heartbeat_interval_ms != 6000:
            pass
        await member.leave()
        for name, value in (
            ("share.auto.offset.reset", "by_duration:1h"),
            ("share.auto.offset.reset", "never"),
            ("share.heartbeat.interval.ms", "99"),
            ("share.session.timeout.ms", "1000000"),
            ("share.isolation.level", "serializable"),
            ("share.record.lock.duration.ms", "1"),
        ):
            assert await change(name, value) is ErrorCode.INVALID_CONFIG


# ---- more than one broker


def sorted_group(group: DescribedGroup) -> DescribedGroup:
    group.members.sort(key=lambda member: member.member_id)
    for member in group.members:
        for assigned in member.assignment.topic_partitions:
            assigned.partitions.sort()
    return group


@pytest.mark.exclusive
async def test_members_survive_a_change_of_coordinator(cluster3: BehaviourCluster, topic: str) -> None:
    await cluster3.create_topic(topic, partitions=4, replication=3)
    async with coordinator(cluster3, topic) as at:
        first, second = ShareMember(at, "first", topic), ShareMember(at, "second", topic)
        await until(lambda: (len(first.partitions), len(second.partitions)) == (2, 2), first, second)
        await until(lambda: first.epoch == second.epoch, first, second)
        before = sorted_group(await describe(at))
        await cluster3.move_leader("__consumer_offsets", await at.partition())
        for member in (first, second):
            response = await member.beat()
            assert (response.member_epoch, response.assignment) == (before.group_epoch, None)
        # A coordinator describes what is committed. The high watermark of a new leader is behind its log until its
        # followers have fetched from it, and so may lack the last records that the members were given.
        while sorted_group(await describe(at)) != before:
            pass
        await first.leave()
        await second.leave()
