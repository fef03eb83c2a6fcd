"""Several nodes, groups over the wire, and restarts."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from aiokproto import Client
from aiokproto.broker import Broker, Cluster
from aiokproto.broker.clock import VirtualClock
from aiokproto.codec.messages.delete_groups import DeleteGroupsRequest
from aiokproto.codec.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.codec.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from aiokproto.codec.messages.leave_group import LeaveGroupRequest, MemberIdentity
from aiokproto.codec.messages.list_groups import ListGroupsRequest
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponsePartition
from aiokproto.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aiokproto.codec.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from aiokproto.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from aiokproto.codec.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from aiokproto.codec.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from aiokproto.codec.payloads.consumer_protocol import ConsumerProtocolSubscription
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, ConfigurationError
from tests.broker.ports import free_port
from tests.broker.wire import Wire, batch, connect, fetch_request, parked, produce, produce_request, records_of
from tests.timeouts import LONG_TIMEOUT

SUBSCRIPTION = b"\0\x01" + ConsumerProtocolSubscription(topics=["t"]).encode(1)


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with Broker(config={"offsets.topic.num.partitions": 4}) as broker:
        await broker.create_topic("t", 2)
        yield broker


@pytest.fixture
async def wire(broker: Broker) -> AsyncIterator[Wire]:
    async with connect(broker) as wire:
        yield wire


def joining(member_id: str = "", group_id: str = "g", instance_id: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group_id,
        session_timeout_ms=30_000,
        rebalance_timeout_ms=60_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
    )


async def join(wire: Wire, member_id: str = "", group_id: str = "g", version: int = 9) -> JoinGroupResponse:
    response = await wire.ask(joining(member_id, group_id), version)
    if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        response = await wire.ask(joining(response.member_id, group_id), version)
    return response


async def sync(
    wire: Wire, joined: JoinGroupResponse, assignment: bytes = b"", version: int = 5, group_id: str = "g"
) -> SyncGroupResponse:
    assignments = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)] if assignment else []
    request = SyncGroupRequest(
        group_id=group_id,
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=assignments,
        protocol_type="consumer" if version >= 5 else None,
        protocol_name="range" if version >= 5 else None,
    )
    return await wire.ask(request, version)


async def heartbeat(wire: Wire, joined: JoinGroupResponse) -> ErrorCode:
    request = HeartbeatRequest(group_id="g", generation_id=joined.generation_id, member_id=joined.member_id)
    return ErrorCode((await wire.ask(request)).error_code)


def committing(
    offset: int,
    generation: int = -1,
    member_id: str = "",
    group_id: str = "g",
    topic: str = "t",
    metadata: str = "note",
) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=1, committed_offset=offset, committed_metadata=metadata)
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=[partition])],
    )


async def commit(wire: Wire, request: OffsetCommitRequest, version: int = 9) -> ErrorCode:
    return ErrorCode((await wire.ask(request, version)).topics[0].partitions[0].error_code)


async def committed(wire: Wire, group_id: str = "g") -> list[tuple[str, int, int]]:
    group = OffsetFetchRequestGroup(group_id=group_id, topics=None)
    (answer,) = (await wire.ask(OffsetFetchRequest(groups=[group]), 9)).groups
    assert answer.error_code == 0
    return [
        (topic.name, each.partition_index, each.committed_offset)
        for topic in answer.topics
        for each in topic.partitions
    ]


async def described(wire: Wire, group_id: str = "g") -> DescribedGroup:
    return (await wire.ask(DescribeGroupsRequest(groups=[group_id]))).groups[0]


async def partition_of(wire: Wire, topic: str) -> MetadataResponsePartition:
    return (await wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))).topics[0].partitions[0]


# ---- options


def test_unknown_options_are_errors() -> None:
    with pytest.raises(ConfigurationError, match=r"did you mean 'message\.max\.bytes'"):
        Broker(config={"message.max.byte": 5})
    with pytest.raises(ConfigurationError, match="not a number"):
        Broker(config={"message.max.bytes": "many"})
    with pytest.raises(ConfigurationError, match="less than"):
        Broker(config={"log.segment.bytes": 1})
    with pytest.raises(ConfigurationError, match="brokers"):
        Cluster(0)


async def test_starting_and_closing() -> None:
    broker = Broker(port=free_port())
    await broker.close()
    async with broker:
        with pytest.raises(RuntimeError):
            await broker.start()
        temporary = broker._running.state.root
        assert temporary.is_dir()
    assert not temporary.exists()
    async with broker:
        assert broker.bootstrap_servers
    await broker.close()


async def test_the_address_of_a_broker_with_ipv6_is_one_that_clients_take() -> None:
    async with Broker(host="::1") as broker:
        assert broker.bootstrap_servers.startswith("[::1]:")
        async with Client(bootstrap_servers=broker.bootstrap_servers) as client:
            assert [(each.host, f"[::1]:{each.port}") for each in client.brokers.values()] == [
                ("::1", broker.bootstrap_servers)
            ]


async def test_one_directory_one_broker(tmp_path: Path) -> None:
    async with Broker(data_dir=tmp_path):
        with pytest.raises(ConfigurationError, match="in use"):
            await Broker(data_dir=tmp_path).start()
    async with Broker(data_dir=tmp_path):
        pass


async def test_a_port_in_use_is_an_error(tmp_path: Path) -> None:
    port = free_port()
    async with Broker(port=port):
        with pytest.raises(OSError, match="in use"):
            await Broker(port=port, data_dir=tmp_path).start()
    async with Broker(port=port, data_dir=tmp_path) as broker:
        assert broker.bootstrap_servers == f"127.0.0.1:{port}"


# ---- groups over the wire


@pytest.mark.parametrize("version", range(10))
async def test_a_member_in_every_version(wire: Wire, version: int) -> None:
    joined = await join(wire, version=version)
    assert (joined.error_code, joined.generation_id, joined.protocol_name) == (0, 1, "range")
    assert [(member.member_id, member.metadata) for member in joined.members] == [(joined.member_id, SUBSCRIPTION)]
    synced = await sync(wire, joined, b"mine", min(version, 5))
    assert (synced.error_code, synced.assignment) == (0, b"mine")
    assert await heartbeat(wire, joined) is ErrorCode.NONE
    if version >= 3:
        leave = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=joined.member_id)])
        left = await wire.ask(leave, min(version, 5))
        assert (left.error_code, left.members[0].error_code) == (0, 0)
    else:
        assert (await wire.ask(LeaveGroupRequest(group_id="g", member_id=joined.member_id), version)).error_code == 0
    assert await heartbeat(wire, joined) is ErrorCode.UNKNOWN_MEMBER_ID


async def test_two_members_rebalance(broker: Broker, wire: Wire) -> None:
    first = await join(wire)
    await sync(wire, first, b"all")
    async with connect(broker) as other:
        required = await other.ask(joining())
        other.send(joining(required.member_id))
        await other.writer.drain()
        while await heartbeat(wire, first) is ErrorCode.NONE:
            await asyncio.sleep(0)
        again = await join(wire, first.member_id)
        assert (again.generation_id, len(again.members)) == (2, 2)
        assert await other.frame()


async def test_invalid_group_requests_are_refused(wire: Wire) -> None:
    assert (await wire.ask(joining(group_id=""))).error_code == ErrorCode.INVALID_GROUP_ID
    assert (await wire.ask(joining("who"))).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    short = joining()
    short.session_timeout_ms = 1
    assert (await wire.ask(short)).error_code == ErrorCode.INVALID_SESSION_TIMEOUT
    assert await commit(wire, committing(1, generation=3, member_id="who")) is ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize("version", range(10))
async def test_offsets_in_every_version(wire: Wire, version: int) -> None:
    request = committing(42)
    assert await commit(wire, request, version) is ErrorCode.NONE
    for each in range(8):
        requested_topic = OffsetFetchRequestTopic(name="t", partition_indexes=[0, 1])
        (topic,) = (await wire.ask(OffsetFetchRequest(group_id="g", topics=[requested_topic]), each)).topics
        assert [partition.committed_offset for partition in topic.partitions] == [-1, 42]
        assert topic.partitions[1].metadata == "note"
    assert await committed(wire) == [("t", 1, 42)]


async def test_offsets_by_topic_id(wire: Wire) -> None:
    topic_id = (await wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]))).topics[0].topic_id
    request = committing(42)
    request.topics[0].name, request.topics[0].topic_id = "", topic_id
    assert await commit(wire, request, 10) is ErrorCode.NONE
    topics = [OffsetFetchRequestTopics(topic_id=each, partition_indexes=[1]) for each in (topic_id, b"?" * 16)]
    group = OffsetFetchRequestGroup(group_id="g", topics=topics)
    (answer,) = (await wire.ask(OffsetFetchRequest(groups=[group]), 10)).groups
    found = [(topic.partitions[0].committed_offset, topic.partitions[0].error_code) for topic in answer.topics]
    assert found == [(42, 0), (-1, ErrorCode.UNKNOWN_TOPIC_ID)]


async def test_offsets_that_are_refused(wire: Wire) -> None:
    assert await commit(wire, committing(1, topic="nope")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await commit(wire, committing(1, metadata="x" * 4097)) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert await committed(wire) == []


async def test_offsets_expire_when_their_group_is_long_empty() -> None:
    """Offsets with their own retention expire by it, the others by ``offsets.retention.minutes``, and then the
    group."""
    clock = VirtualClock()
    config = {"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": 1000}
    async with Broker(config=config, clock=clock) as broker, connect(broker) as wire:
        await broker.create_topic("t", 2)
        short = committing(1, group_id="short")
        short.retention_time_ms = 0
        await commit(wire, short, 4)
        await commit(wire, committing(2, group_id="long"))
        await clock.advance(1)
        assert await committed(wire, "short") == []
        assert await committed(wire, "long") == [("t", 1, 2)]
        await clock.advance(60)
        assert await committed(wire, "long") == []
        assert (await wire.ask(ListGroupsRequest())).groups == []


async def test_groups_are_described_listed_and_deleted(wire: Wire) -> None:
    joined = await join(wire)
    assert (await described(wire)).group_state == "CompletingRebalance"
    await sync(wire, joined, b"mine")
    group = await described(wire)
    assert (group.group_state, group.protocol_data, group.protocol_type) == ("Stable", "range", "consumer")
    (member,) = group.members
    assert (member.member_assignment, member.client_id, member.client_host) == (b"mine", "test", "/127.0.0.1")
    assert (await described(wire, "nope")).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (await wire.ask(DescribeGroupsRequest(groups=["nope"]), 5)).groups[0].group_state == "Dead"
    for version in range(6):
        listed = (await wire.ask(ListGroupsRequest(), version)).groups
        assert [(each.group_id, each.protocol_type) for each in listed] == [("g", "consumer")]
    assert (await wire.ask(ListGroupsRequest(states_filter=["Empty"]))).groups == []
    assert (await wire.ask(ListGroupsRequest(types_filter=["share"]))).groups == []

    async def delete() -> int:
        return (await wire.ask(DeleteGroupsRequest(groups_names=["g"]))).results[0].error_code

    assert await delete() == ErrorCode.NON_EMPTY_GROUP
    await wire.ask(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=joined.member_id)]))
    assert (await described(wire)).group_state == "Empty"
    assert await delete() == 0
    assert await delete() == ErrorCode.GROUP_ID_NOT_FOUND


async def test_offsets_are_deleted_unless_in_use(wire: Wire) -> None:
    await commit(wire, committing(1))

    async def delete() -> int:
        topic = OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=1)])
        response = await wire.ask(OffsetDeleteRequest(group_id="g", topics=[topic]))
        return response.error_code or response.topics[0].partitions[0].error_code

    joined = await join(wire)
    assert await delete() == ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    await wire.ask(LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id=joined.member_id)]))
    assert await delete() == 0
    assert await committed(wire) == []


async def test_find_coordinator_in_every_version(wire: Wire) -> None:
    for version in range(7):
        if version < 4:
            assert (await wire.ask(FindCoordinatorRequest(key="g"), version)).node_id == 0
        else:
            found = (await wire.ask(FindCoordinatorRequest(coordinator_keys=["g", "h"]), version)).coordinators
            assert [(each.key, each.node_id, each.error_code) for each in found] == [("g", 0, 0), ("h", 0, 0)]


async def test_closing_does_not_wait_for_delayed_joins(broker: Broker, wire: Wire) -> None:
    await sync(wire, await join(wire), b"all")
    async with connect(broker) as other:
        required = await other.ask(joining())
        other.send(joining(required.member_id))
        await other.writer.drain()
        while (await described(wire)).group_state == "Stable":
            await asyncio.sleep(0)
        await asyncio.wait_for(broker.close(), LONG_TIMEOUT)
        assert await other.closed()


# ---- restart


async def test_all_state_survives_a_restart(tmp_path: Path) -> None:
    config = {"offsets.topic.num.partitions": 2}
    async with Broker(data_dir=tmp_path, config=config) as broker, connect(broker) as wire:
        await broker.create_topic("t", 2, config={"retention.ms": 12345678})
        await produce(wire, "t", batch([b"a", b"b"], producer_id=5, producer_epoch=0, base_sequence=0))
        producer = await wire.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 5)
        joined = await join(wire)
        await sync(wire, joined, b"mine")
        assert await commit(wire, committing(1, joined.generation_id, joined.member_id)) is ErrorCode.NONE
        assert await commit(wire, committing(7, group_id="simple")) is ErrorCode.NONE
        before = (await wire.ask(MetadataRequest(topics=None))).topics
        epoch = before[0].partitions[0].leader_epoch
    async with Broker(data_dir=tmp_path, config=config) as broker, connect(broker) as wire:
        metadata = await wire.ask(MetadataRequest(topics=None))
        assert [topic.topic_id for topic in metadata.topics] == [topic.topic_id for topic in before]
        assert metadata.topics[0].partitions[0].leader_epoch > epoch
        response = await wire.ask(fetch_request("t"), 12)
        assert [record.value for record in records_of(response)] == [b"a", b"b"]
        again = await produce(wire, "t", batch([b"a", b"b"], producer_id=5, producer_epoch=0, base_sequence=0))
        assert again.base_offset == 0, "the producer's window outlives the broker"
        other = await wire.ask(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0), 5)
        assert other.producer_id > producer.producer_id
        assert await committed(wire) == [("t", 1, 1)]
        assert await committed(wire, "simple") == [("t", 1, 7)]
        assert await heartbeat(wire, joined) is ErrorCode.NONE, "the member is still in"
        assert (await sync(wire, joined)).assignment == b"mine"


async def test_a_deleted_group_stays_deleted(tmp_path: Path) -> None:
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        await broker.create_topic("t", 2)
        await commit(wire, committing(7))
        await commit(wire, committing(8, group_id="kept"))
        assert (await wire.ask(DeleteGroupsRequest(groups_names=["g"]))).results[0].error_code == 0
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        assert [group.group_id for group in (await wire.ask(ListGroupsRequest())).groups] == ["kept"]


# ---- several nodes


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(3, config={"offsets.topic.num.partitions": 3}) as cluster:
        await cluster.create_topic("t", 3, replication=3)
        yield cluster


async def test_only_the_leader_serves(cluster: Cluster) -> None:
    leader = cluster.leader("t", 0)
    async with connect(cluster, leader) as wire, connect(cluster, (leader + 1) % 3) as other:
        assert (await produce(wire, "t", batch([b"x"]))).error_code == 0
        response = await other.ask(produce_request("t", batch([b"x"])), 12)
        refused = response.responses[0].partition_responses[0]
        assert refused.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert refused.current_leader.leader_id == leader
        port = int(cluster.bootstrap_servers.split(",")[leader].split(":")[1])
        assert [(node.node_id, node.port) for node in response.node_endpoints] == [(leader, port)]
        fetched = (await other.ask(fetch_request("t"), 12)).responses[0].partitions[0]
        assert fetched.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert fetched.current_leader.leader_id == leader


async def test_leaders_are_spread(cluster: Cluster) -> None:
    assert sorted(cluster.leader("t", index) for index in range(3)) == [0, 1, 2]


async def test_moving_a_leader(cluster: Cluster) -> None:
    """The data moves along, the leader epoch increases, and a client with the old epoch gets an error."""
    old = cluster.leader("t", 0)
    async with connect(cluster, old) as wire:
        await produce(wire, "t", batch([b"x"]))
        wire.send(fetch_request("t", 1, max_wait_ms=600_000), 11)
        await parked(cluster)
        new = await cluster.move_leader("t", 0)
        assert new == cluster.leader("t", 0) != old
        assert await wire.frame(), "a parked fetch is answered"
    async with connect(cluster, new) as wire:
        found = await partition_of(wire, "t")
        assert (found.leader_id, found.leader_epoch) == (new, 1)
        assert (await produce(wire, "t", batch([b"y"]))).base_offset == 1
        response = await wire.ask(fetch_request("t", current_leader_epoch=1), 11)
        assert [record.value for record in records_of(response)] == [b"x", b"y"]
        fenced = await wire.ask(fetch_request("t", current_leader_epoch=0), 11)
        assert fenced.responses[0].partitions[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
        partition = OffsetForLeaderPartition(partition=0, current_leader_epoch=1, leader_epoch=0)
        request = OffsetForLeaderEpochRequest(topics=[OffsetForLeaderTopic(topic="t", partitions=[partition])])
        (end,) = (await wire.ask(request)).topics[0].partitions
        assert (end.leader_epoch, end.end_offset) == (0, 1)
        diverged = await wire.ask(fetch_request("t", 2, last_fetched_epoch=0), 12)
        assert diverged.responses[0].partitions[0].diverging_epoch.end_offset == 1
    assert await cluster.move_leader("t", 0, to_node=old) == old
    with pytest.raises(BrokerError):
        await cluster.move_leader("t", 99)


async def test_a_node_stops_and_starts_again(cluster: Cluster) -> None:
    servers = cluster.bootstrap_servers
    victim = cluster.leader("t", 0)
    async with connect(cluster, victim) as wire:
        await produce(wire, "t", batch([b"x"]))
        await cluster.stop_broker(victim)
        assert await wire.closed()
    with pytest.raises(ConnectionRefusedError):
        async with connect(cluster, victim):
            pass
    with pytest.raises(ValueError, match="not running"):
        await cluster.stop_broker(victim)
    heir = cluster.leader("t", 0)
    async with connect(cluster, heir) as wire:
        metadata = await wire.ask(MetadataRequest(topics=None))
        assert sorted(node.node_id for node in metadata.brokers) == sorted({0, 1, 2} - {victim})
        found = await partition_of(wire, "t")
        assert found.leader_id == heir != victim
        assert (victim in found.isr_nodes, found.offline_replicas) == (False, [victim])
        assert (await produce(wire, "t", batch([b"y"]))).base_offset == 1
    await cluster.start_broker(victim)
    assert cluster.bootstrap_servers == servers
    async with connect(cluster, victim) as wire:
        assert sorted((await partition_of(wire, "t")).isr_nodes) == [0, 1, 2]


async def test_a_stopped_node_keeps_its_port() -> None:
    async with Cluster(2) as cluster:
        for stop in (cluster.stop_broker, cluster.kill_broker):
            await stop(1)
            host, port = cluster.bootstrap_servers.split(",")[1].split(":")
            with socket.socket() as other, pytest.raises(OSError, match="in use"):
                other.bind((host, int(port)))
            with pytest.raises(ConnectionRefusedError):
                async with connect(cluster, 1):
                    pass
            await cluster.start_broker(1)
        await cluster.stop_broker(1)
        await cluster.remove_broker(1)


async def test_a_partition_without_replicas_waits_for_its_node(cluster: Cluster) -> None:
    await cluster.create_topic("single")
    owner = cluster.leader("single", 0)
    await cluster.stop_broker(owner)
    assert cluster.leader("single", 0) == -1
    async with connect(cluster, (owner + 1) % 3) as wire:
        assert (await partition_of(wire, "single")).error_code == ErrorCode.LEADER_NOT_AVAILABLE
    await cluster.start_broker(owner)
    assert cluster.leader("single", 0) == owner


async def test_min_insync_replicas(cluster: Cluster) -> None:
    await cluster.create_topic("safe", replication=3, config={"min.insync.replicas": 2})
    victims = [node for node in range(3) if node != cluster.leader("safe", 0)]
    async with connect(cluster, cluster.leader("safe", 0)) as wire:
        await cluster.stop_broker(victims[0])
        assert (await produce(wire, "safe", batch([b"x"]))).error_code == 0
        await cluster.stop_broker(victims[1])
        assert (await produce(wire, "safe", batch([b"x"]))).error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        response = await wire.ask(produce_request("safe", batch([b"x"]), acks=1), 9)
        assert response.responses[0].partition_responses[0].error_code == 0
        await cluster.start_broker(victims[0])
        assert (await produce(wire, "safe", batch([b"x"]))).error_code == 0


async def test_a_group_moves_with_its_coordinator(cluster: Cluster) -> None:
    """Committed offsets move along; delayed requests fail with NOT_COORDINATOR."""
    old = cluster.coordinator("g")
    async with connect(cluster, old) as wire, connect(cluster, old) as parked:
        joined = await join(wire)
        await sync(wire, joined, b"mine")
        await commit(wire, committing(5, joined.generation_id, joined.member_id))
        required = await parked.ask(joining())
        parked.send(joining(required.member_id))
        await parked.writer.drain()
        while await heartbeat(wire, joined) is ErrorCode.NONE:
            await asyncio.sleep(0)
        new = await cluster.move_coordinator("g")
        assert new == cluster.coordinator("g") != old
        assert ErrorCode.NOT_COORDINATOR.to_bytes(2, "big") in await parked.frame()
        assert await heartbeat(wire, joined) is ErrorCode.NOT_COORDINATOR
    async with connect(cluster, new) as wire:
        assert await heartbeat(wire, joined) is ErrorCode.NONE
        assert await committed(wire) == [("t", 1, 5)]
        assert (await sync(wire, joined)).assignment == b"mine"


async def test_a_group_survives_its_coordinator(cluster: Cluster) -> None:
    old = cluster.coordinator("g")
    async with connect(cluster, old) as wire:
        await commit(wire, committing(5))
    await cluster.stop_broker(old)
    new = cluster.coordinator("g")
    assert new not in (old, -1)
    async with connect(cluster, new) as wire:
        assert await committed(wire) == [("t", 1, 5)]
        found = (await wire.ask(FindCoordinatorRequest(coordinator_keys=["g"]))).coordinators[0]
        assert found.node_id == new
