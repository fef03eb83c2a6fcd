"""Changes of coordinator and what survives them, the expiration of offsets, and the migration between group types."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from aiokproto.broker import Broker, Cluster
from aiokproto.broker.clock import VirtualClock
from aiokproto.broker.groups.classic_group import ClassicGroup
from aiokproto.broker.groups.classic_member import ClassicGroupState, JoinRequest
from aiokproto.broker.groups.consumer.group import ConsumerGroup
from aiokproto.broker.groups.coordinator import Age, expired
from aiokproto.broker.groups.records import OffsetAndMetadata, decode_offset_value, restore_group
from aiokproto.broker.metadata.internal_topics import internal_topic_records, partition_for
from aiokproto.codec.messages.consumer_group_describe import ConsumerGroupDescribeRequest, DescribedGroup
from aiokproto.codec.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from aiokproto.codec.messages.delete_groups import DeleteGroupsRequest
from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokproto.codec.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from aiokproto.codec.messages.leave_group import LeaveGroupRequest, MemberIdentity
from aiokproto.codec.messages.list_groups import ListGroupsRequest
from aiokproto.codec.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from aiokproto.codec.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from aiokproto.codec.payloads.consumer_protocol import ConsumerProtocolSubscription
from aiokproto.codec.payloads.offsets_topic import GroupMetadataValue, MemberMetadata, OffsetCommitValue
from aiokproto.error_codes import ErrorCode
from tests.broker.epoch_harness import Topics
from tests.broker.wire import Wire, connect
from tests.timeouts import LONG_TIMEOUT

SUBSCRIPTION = b"\0\x01" + ConsumerProtocolSubscription(topics=["t"]).encode(1)
QUICK = {"offsets.topic.num.partitions": 1}


async def heartbeat(wire: Wire, member_id: str, epoch: int = 0, **fields: Any) -> ConsumerGroupHeartbeatResponse:
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 1000, "subscribed_topic_names": ["t"], "topic_partitions": [], **fields}
    return await wire.ask(
        ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **fields)
    )


async def describe(wire: Wire) -> DescribedGroup:
    request = ConsumerGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)
    return (await wire.ask(request)).groups[0]


async def join(wire: Wire, member_id: str = "", instance_id: str | None = "i") -> JoinGroupResponse:
    """Join as a static member, which needs no member id first."""
    return await wire.ask(
        JoinGroupRequest(
            group_id="g",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=60_000,
            member_id=member_id,
            group_instance_id=instance_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="cooperative-sticky", metadata=SUBSCRIPTION)],
        )
    )


async def listed(wire: Wire) -> dict[str, tuple[str, str]]:
    groups = (await wire.ask(ListGroupsRequest())).groups
    return {group.group_id: (group.group_type, group.group_state) for group in groups}


# ---- restarts a change of coordinator


async def test_a_consumer_group_survives_a_restart(tmp_path: Path) -> None:
    async with Broker(data_dir=tmp_path, config=QUICK) as broker, connect(broker) as wire:
        await broker.create_topic("t", 3)
        joined = await heartbeat(wire, "m", instance_id="i", rack_id="r", server_assignor="range")
        await heartbeat(wire, "n", subscribed_topic_names=None, subscribed_topic_regex="t+")
        before = await describe(wire)
        assert before.group_state == "Reconciling"
    async with Broker(data_dir=tmp_path, config=QUICK) as broker, connect(broker) as wire:
        after = await describe(wire)
        for group in (before, after):
            group.members.sort(key=lambda member: member.member_id)
        assert after == before
        assert (await heartbeat(wire, "m", joined.member_epoch, instance_id="i")).error_code == 0


async def test_a_groups_options_survive_a_restart(tmp_path: Path) -> None:
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        change = AlterableConfig(name="consumer.heartbeat.interval.ms", config_operation=0, value="6000")
        resource = AlterConfigsResource(resource_type=32, resource_name="g", configs=[change])
        await wire.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        assert (await heartbeat(wire, "m")).heartbeat_interval_ms == 6000


async def test_a_deleted_group_stays_deleted(tmp_path: Path) -> None:
    """All records of the group have tombstones."""
    async with Broker(data_dir=tmp_path, config=QUICK) as broker, connect(broker) as wire:
        await broker.create_topic("t")
        await heartbeat(wire, "m", subscribed_topic_regex=".*")
        await heartbeat(wire, "m", -1)
        (result,) = (await wire.ask(DeleteGroupsRequest(groups_names=["g"]))).results
        assert result.error_code == 0
        latest = {
            key: value
            for _, (key, value, _) in internal_topic_records(broker._running.state.partition("__consumer_offsets", 0))
        }
        assert set(latest.values()) == {None}
    async with Broker(data_dir=tmp_path, config=QUICK) as broker, connect(broker) as wire:
        assert await listed(wire) == {}


async def test_a_new_coordinator_serves_groups_after_loading_them() -> None:
    async with Cluster(2, config=QUICK) as cluster:
        await cluster.create_topic("t", 2, 2)
        old = cluster.coordinator("g")
        async with connect(cluster, old) as wire, connect(cluster, 1 - old) as other:
            joined = await heartbeat(wire, "m")
            groups = cluster._running.groups
            assert groups is not None
            groups.loading_paused = True
            await cluster.move_coordinator("g")
            assert (await heartbeat(wire, "m", 2)).error_code == ErrorCode.NOT_COORDINATOR
            loading = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            assert (await heartbeat(other, "m", 2)).error_code == loading
            assert (await describe(other)).error_code == loading
            assert (await join(other)).error_code == loading
            assert (await other.ask(ListGroupsRequest())).error_code == loading
            request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=None)])
            assert (await other.ask(request)).groups[0].error_code == loading
            groups.resume_loading()
            answer = await heartbeat(other, "m", 2, topic_partitions=[])
            assert (answer.error_code, answer.member_epoch) == (0, joined.member_epoch)
            assert await listed(other) == {"g": ("consumer", "Stable")}


async def test_members_without_heartbeats_are_removed() -> None:
    clock = VirtualClock()
    async with Broker(clock=clock) as broker, connect(broker) as wire:
        await broker.create_topic("t")
        await heartbeat(wire, "m")
        await clock.advance(44)
        assert len((await describe(wire)).members) == 1
        await clock.advance(1)
        assert ((await describe(wire)).members, (await describe(wire)).group_state) == ([], "Empty")


@pytest.mark.parametrize(
    ("key", "at"),
    [("abc", 96_354 % 50), ("Hello World", 862_545_276 % 50), ("polygenelubricants", 0)],
    ids=["positive", "negative", "the least number"],
)
def test_a_group_belongs_to_the_partition_its_id_hashes_to(key: str, at: int) -> None:
    """The absolute value of Java's hash decides. For the smallest number, which has none, it is 0."""
    partitions: Any = range(50)
    found: Any = partition_for(key, partitions)
    assert found == at


@pytest.mark.parametrize("version", range(5))
def test_classic_group_records_of_every_version_are_decoded(version: int) -> None:
    member = MemberMetadata(
        member_id="m", client_id="c", client_host="/h", session_timeout=10_000, subscription=b"s", assignment=b"a"
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=7, protocol="range", leader="m", members=[member]
    ).encode(version)
    group = ClassicGroup("g")
    restore_group(group, version.to_bytes(2, "big") + value, 100.0, 0)
    assert (group.state, group.generation, group.protocol, group.leader) == (ClassicGroupState.STABLE, 7, "range", "m")
    assert (group.members["m"].assignment, group.members["m"].rebalance_timeout) == (b"a", 10.0)


def test_the_time_a_group_became_empty_survives_a_new_coordinator() -> None:
    value = GroupMetadataValue(
        protocol_type="consumer", generation=7, protocol=None, leader=None, current_state_timestamp=60_000, members=[]
    )
    group = ClassicGroup("g")
    restore_group(group, b"\0\x03" + value.encode(3), 1000.0, 90_000)
    assert group.empty_since == 970.0


@pytest.mark.parametrize("version", range(5))
def test_offset_records_of_every_version_are_decoded(version: int) -> None:
    value = OffsetCommitValue(offset=5, metadata="note", commit_timestamp=77).encode(version)
    assert decode_offset_value(version.to_bytes(2, "big") + value) == OffsetAndMetadata(5, -1, "note", 77)


# ---- expiration of offsets


def classic(*, members: bool = False, was_used: bool = True, empty_since: float = 0.0) -> ClassicGroup:
    group = ClassicGroup("g", empty_since)
    if was_used:
        group.join("j", JoinRequest("", "i", protocols=(("range", SUBSCRIPTION),)), empty_since)
        if not members:
            (member_id,) = group.members
            group.leave(member_id, "i", empty_since)
            group.tick(empty_since)
        else:
            group.state = ClassicGroupState.STABLE
    return group


@pytest.mark.parametrize(
    ("group", "committed", "expires", "gone"),
    [
        (classic(was_used=False), 40_000, -1, True),
        (classic(was_used=False), 40_001, -1, False),
        (classic(empty_since=40.0), 99_000, -1, True),
        (classic(empty_since=41.0), 1_000, -1, False),
        (classic(empty_since=99.0), 99_000, 100_000, True),
        (classic(empty_since=0.0), 1_000, 100_001, False),
        (classic(members=True), 1_000, -1, False),
        (classic(members=True), 1_000, 1_000, False),
        (ConsumerGroup("g", Topics()), 40_000, -1, True),
        (ConsumerGroup("g", Topics()), 40_001, -1, False),
    ],
)
def test_offset_expiration(group: ClassicGroup | ConsumerGroup, committed: int, expires: int, gone: bool) -> None:
    """Both clocks are at 100 seconds, and the retention is a minute."""
    offsets = {("t", 0): OffsetAndMetadata(1, -1, "", committed, expires)}
    assert bool(expired(group, offsets, Age(100.0, 100_000, 60.0))) is gone


def test_offsets_of_unsubscribed_topics_expire() -> None:
    offsets = {("t", 0): OffsetAndMetadata(1, -1, "", 0), ("u", 0): OffsetAndMetadata(1, -1, "", 0)}
    group = classic(members=True)
    assert expired(group, offsets, Age(100.0, 100_000, 60.0)) == [("u", 0)]
    group.rebalance(100.0)
    assert expired(group, offsets, Age(100.0, 100_000, 60.0)) == []
    connect_workers = ClassicGroup("g")
    connect_workers.join("j", JoinRequest("", "i", "connect", (("p", b""),)), 0.0)
    connect_workers.state = ClassicGroupState.STABLE
    assert expired(connect_workers, offsets, Age(100.0, 100_000, 60.0)) == []


# ---- migration between group types


async def test_an_empty_group_takes_the_type_of_the_member_that_joins(tmp_path: Path) -> None:
    async with Broker(data_dir=tmp_path, config=QUICK) as broker, connect(broker) as wire:
        await broker.create_topic("t")
        joined = await join(wire)
        leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=joined.member_id)])
        await wire.ask(leave)
        assert await listed(wire) == {"g": ("classic", "Empty")}
        assert (await heartbeat(wire, "m")).error_code == 0
        assert await listed(wire) == {"g": ("consumer", "Stable")}
        await heartbeat(wire, "m", -1)
        assert (await join(wire)).generation_id == 1
        assert (await listed(wire))["g"][0] == "classic"
        await wire.ask(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="", group_instance_id="i")]))
        await heartbeat(wire, "m")
    async with Broker(data_dir=tmp_path, config=QUICK) as broker, connect(broker) as wire:
        assert await listed(wire) == {"g": ("consumer", "Stable")}


async def stable_classic(wire: Wire) -> JoinGroupResponse:
    joined = await join(wire)
    assignment = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"")
    request = SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        protocol_type=joined.protocol_type,
        protocol_name=joined.protocol_name,
        assignments=[assignment],
    )
    assert (await wire.ask(request)).error_code == 0
    return joined


@pytest.mark.parametrize("policy", ["disabled", "upgrade", "downgrade", "bidirectional"])
async def test_a_group_with_members_migrates_as_the_policy_allows(policy: str) -> None:
    async with Broker(config={**QUICK, "group.consumer.migration.policy": policy}) as broker:
        await broker.create_topic("t", 2)
        async with connect(broker) as wire:
            await stable_classic(wire)
            answer = await heartbeat(wire, "m")
            if policy in ("disabled", "downgrade"):
                assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
                assert await listed(wire) == {"g": ("classic", "Stable")}
                return
            assert answer.error_code == 0
            assert (await listed(wire))["g"][0] == "consumer"
            await heartbeat(wire, "m", -1)
            kind = "classic" if policy == "bidirectional" else "consumer"
            assert (await listed(wire))["g"][0] == kind


async def test_an_upgrade_fails_a_waiting_join() -> None:
    async with Broker(config=QUICK) as broker, connect(broker) as wire, connect(broker) as other:
        await broker.create_topic("t", 2)
        await stable_classic(wire)
        parked = asyncio.ensure_future(join(other, instance_id="j"))
        while (await listed(wire))["g"][1] != "PreparingRebalance":
            await asyncio.sleep(0)
        assert (await heartbeat(wire, "m")).error_code == 0
        assert (await parked).error_code == ErrorCode.REBALANCE_IN_PROGRESS
        assert len((await describe(wire)).members) == 3


async def test_a_static_member_can_return_to_the_classic_protocol() -> None:
    """If it was the last consumer member, the group becomes classic as well, and the member needn't join again."""
    async with Broker(config=QUICK) as broker, connect(broker) as wire:
        await broker.create_topic("t", 2)
        await heartbeat(wire, "m", instance_id="i")
        joined = await join(wire)
        assert joined.error_code == 0
        assert await listed(wire) == {"g": ("classic", "Stable")}
        request = HeartbeatRequest(
            group_id="g", generation_id=joined.generation_id, member_id=joined.member_id, group_instance_id="i"
        )
        assert (await wire.ask(request)).error_code == 0
        assert (await heartbeat(wire, "m", 2, instance_id="i")).error_code == ErrorCode.GROUP_ID_NOT_FOUND


# ---- other clients


async def test_confluent_kafka_members_use_the_consumer_protocol() -> None:
    confluent: Any = pytest.importorskip("confluent_kafka")

    def run(servers: str) -> None:
        def member(subscription: str) -> Any:
            options = {"bootstrap.servers": servers, "group.id": "g", "group.protocol": "consumer"}
            consumer = confluent.Consumer({**options, "auto.offset.reset": "earliest"})
            consumer.subscribe([subscription])
            return consumer

        def share(wanted: list[int], *consumers: Any) -> None:
            end = time.monotonic() + LONG_TIMEOUT
            while [len(each.assignment()) for each in consumers] != wanted:
                assert time.monotonic() < end, [each.assignment() for each in consumers]
                for each in consumers:
                    each.poll(0.01)

        first, second = member("t"), member("^t.*")
        share([2, 2], first, second)
        (at, *_) = first.assignment()
        first.commit(offsets=[confluent.TopicPartition("t", at.partition, 1)], asynchronous=False)
        second.close()
        share([4], first)
        (found,) = first.committed([at], LONG_TIMEOUT)
        assert found.offset == 1
        first.close()

    async with Broker(config={**QUICK, "group.consumer.heartbeat.interval.ms": 100}) as broker:
        await broker.create_topic("t", 4)
        await asyncio.to_thread(run, broker.bootstrap_servers)
        async with connect(broker) as wire:
            assert await listed(wire) == {"g": ("consumer", "Empty")}
