"""Share groups in a broker: changes of coordinator, timeouts, and deletion of topics and groups."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aiokproto.broker import Broker, Cluster
from aiokproto.broker.clock import VirtualClock
from aiokproto.broker.groups.classic_member import Identity
from aiokproto.broker.groups.share.group import ShareGroup
from aiokproto.broker.groups.share.state_metadata import StateTopic
from aiokproto.broker.metadata.internal_topics import internal_topic_records
from aiokproto.broker.share.coordinator import key_of
from aiokproto.broker.share.records import SharePartitionKey
from aiokproto.codec.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from aiokproto.codec.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from aiokproto.codec.messages.delete_groups import DeleteGroupsRequest
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from aiokproto.codec.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokproto.codec.messages.list_groups import ListGroupsRequest
from aiokproto.codec.messages.share_group_describe import DescribedGroup, ShareGroupDescribeRequest
from aiokproto.codec.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
from aiokproto.codec.schema import Request
from aiokproto.error_codes import ErrorCode
from tests.broker.wire import Wire, connect

QUICK = {"offsets.topic.num.partitions": 1, "share.coordinator.state.topic.num.partitions": 1}


async def heartbeat(wire: Wire, member_id: str, epoch: int = 0, **fields: Any) -> ShareGroupHeartbeatResponse:
    if epoch == 0:
        fields = {"subscribed_topic_names": ["t"], **fields}
    request = ShareGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=epoch, **fields)
    return await wire.ask(request)


async def describe(wire: Wire) -> DescribedGroup:
    request = ShareGroupDescribeRequest(group_ids=["g"], include_authorized_operations=False)
    return (await wire.ask(request)).groups[0]


async def begins(wire: Wire) -> dict[tuple[str, int], int]:
    requested_group = DescribeShareGroupOffsetsRequestGroup(group_id="g", topics=None)
    (group,) = (await wire.ask(DescribeShareGroupOffsetsRequest(groups=[requested_group]))).groups
    return {
        (topic.topic_name, each.partition_index): each.start_offset
        for topic in group.topics
        for each in topic.partitions
    }


async def alter(wire: Wire, start: int, topic: str = "t") -> ErrorCode:
    partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=start)
    requested_topic = AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[partition])
    answer = await wire.ask(AlterShareGroupOffsetsRequest(group_id="g", topics=[requested_topic]))
    return ErrorCode(answer.error_code or answer.responses[0].partitions[0].error_code)


def partitions(answer: ShareGroupHeartbeatResponse) -> list[int] | None:
    if answer.assignment is None:
        return None
    return [index for topic in answer.assignment.topic_partitions for index in topic.partitions]


def of(cluster: Cluster) -> ShareGroup:
    return cluster._running.groups.share_group("g")


async def test_the_first_heartbeat_returns_an_assignment(broker: Broker, wire: Wire) -> None:
    """Kafka returns it at the next heartbeat, after initializing the states."""
    assert partitions(await heartbeat(wire, "m")) == [0, 1]
    assert partitions(await heartbeat(wire, "m", 2)) is None


async def test_a_share_group_survives_a_restart(tmp_path: Path) -> None:
    async with Broker(data_dir=tmp_path, config=QUICK) as broker, connect(broker) as wire:
        await broker.create_topic("t", 3)
        await heartbeat(wire, "m", rack_id="r")
        await heartbeat(wire, "n")
        before, starts = await describe(wire), await begins(wire)
        assert len(before.members) == 2
        assert starts == {("t", index): -1 for index in range(3)}
    async with Broker(data_dir=tmp_path, config=QUICK) as broker, connect(broker) as wire:
        after = await describe(wire)
        for group in (before, after):
            group.members.sort(key=lambda member: member.member_id)
        assert after == before
        assert await begins(wire) == starts
        # The members' sessions start again, but their epochs stay.
        answer = await heartbeat(wire, "m", 2)
        assert (answer.error_code, answer.member_epoch) == (0, 3)
        for member_id in "mn":
            await heartbeat(wire, member_id, -1)
        assert await alter(wire, 9) is ErrorCode.NONE
    async with Broker(data_dir=tmp_path, config=QUICK) as broker, connect(broker) as wire:
        assert ((await describe(wire)).group_state, (await begins(wire))["t", 0]) == ("Empty", 9)


async def test_a_new_coordinator_loads_the_members() -> None:
    async with Cluster(2, config=QUICK) as cluster:
        await cluster.create_topic("t", 2, 2)
        old = cluster.coordinator("g")
        async with connect(cluster, old) as wire, connect(cluster, 1 - old) as other:
            epoch = (await heartbeat(wire, "m")).member_epoch
            assert (await heartbeat(other, "m", epoch)).error_code == ErrorCode.NOT_COORDINATOR
            await cluster.move_coordinator("g")
            assert (await heartbeat(wire, "m", epoch)).error_code == ErrorCode.NOT_COORDINATOR
            assert (await describe(wire)).error_code == ErrorCode.NOT_COORDINATOR
            assert await alter(wire, 0) is ErrorCode.NOT_COORDINATOR
            answer = await heartbeat(other, "m", epoch)
            assert (answer.error_code, answer.member_epoch, answer.assignment) == (0, epoch, None)


async def test_a_member_without_heartbeats_is_removed_and_the_group_stays() -> None:
    clock = VirtualClock()
    config = {**QUICK, "offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": 60_000}
    async with Broker(clock=clock, config=config) as broker, connect(broker) as wire:
        await broker.create_topic("t", 2)
        await heartbeat(wire, "m")
        await clock.advance(44)
        assert list(of(broker).members) == ["m"]
        assert (await heartbeat(wire, "m", 2)).error_code == 0
        await clock.advance(44)
        assert list(of(broker).members) == ["m"]
        await clock.advance(1)
        assert of(broker).state == "Empty"
        assert (await heartbeat(wire, "m", 2)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        await clock.advance(150)
        assert [group.group_id for group in (await wire.ask(ListGroupsRequest())).groups] == ["g"]


async def test_a_members_session_can_be_expired_on_demand(broker: Broker, wire: Wire) -> None:
    await heartbeat(wire, "m")
    broker.expire_session("g", "m")
    assert of(broker).state == "Empty"


async def test_changed_options_apply_to_an_existing_group(broker: Broker, wire: Wire) -> None:
    assert (await heartbeat(wire, "m")).heartbeat_interval_ms == 5000
    change = AlterableConfig(name="share.heartbeat.interval.ms", config_operation=0, value="7000")
    resource = AlterConfigsResource(resource_type=32, resource_name="g", configs=[change])
    await wire.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    assert of(broker).settings.heartbeat_interval == 7
    assert (await heartbeat(wire, "m", 2)).heartbeat_interval_ms == 7000


async def test_the_configured_maximum_size_is_enforced() -> None:
    async with Broker(config={**QUICK, "group.share.max.size": 1}) as broker, connect(broker) as wire:
        assert (await heartbeat(wire, "m")).error_code == 0
        assert (await heartbeat(wire, "n")).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert (await heartbeat(wire, "m", -1)).error_code == 0
        assert (await heartbeat(wire, "n")).error_code == 0


async def test_a_deleted_group_leaves_no_records_or_states(tmp_path: Path) -> None:
    async with Broker(data_dir=tmp_path, config=QUICK) as broker, connect(broker) as wire:
        await broker.create_topic("t", 2)
        await heartbeat(wire, "m")
        (result,) = (await wire.ask(DeleteGroupsRequest(groups_names=["g"]))).results
        assert result.error_code == ErrorCode.NON_EMPTY_GROUP
        await heartbeat(wire, "m", -1)
        (result,) = (await wire.ask(DeleteGroupsRequest(groups_names=["g"]))).results
        assert result.error_code == 0
        for topic in ("__consumer_offsets", "__share_group_state"):
            latest = {
                key: value for _, (key, value, _) in internal_topic_records(broker._running.state.partition(topic, 0))
            }
            assert set(latest.values()) == {None}
    async with Broker(data_dir=tmp_path, config=QUICK) as broker, connect(broker) as wire:
        assert (await wire.ask(ListGroupsRequest())).groups == []
        assert await begins(wire) == {}


async def test_a_deleted_topic_is_removed_from_the_group(broker: Broker, wire: Wire) -> None:
    await broker.create_topic("u")
    await heartbeat(wire, "m", subscribed_topic_names=["t", "u"])
    assert set(await begins(wire)) == {("t", 0), ("t", 1), ("u", 0)}
    topic = broker._running.state.topics["u"].topic_id
    gone = DeleteTopicState(name="u", topic_id=bytes(16))
    await wire.ask(DeleteTopicsRequest(topics=[gone], timeout_ms=1000))
    assert set(await begins(wire)) == {("t", 0), ("t", 1)}
    assert topic not in of(broker).states.initialized
    assert partitions(await heartbeat(wire, "m", 2)) == [0, 1]
    # A topic created again with the same name is another topic.
    await broker.create_topic("u")
    assert partitions(await heartbeat(wire, "m", 3)) in ([0, 1, 0], [0, 0, 1])


async def test_failed_initializations_are_retried() -> None:
    async with Cluster(2, config=QUICK) as cluster:
        # The node that coordinates the states is down, and the node that coordinates the group is up.
        cluster._running.state.create_topic("__share_group_state", assignment={0: [1]})
        cluster._running.state.create_topic(
            "__consumer_offsets", assignment={0: [0]}, configs={"cleanup.policy": "compact"}
        )
        cluster._running.state.create_topic("t", assignment={0: [0]})
        await cluster.stop_broker(1)
        async with connect(cluster) as wire:
            answer = await heartbeat(wire, "m")
            assert (answer.error_code, partitions(answer)) == (0, [])
            assert await begins(wire) == {}
            assert list(of(cluster).states.initializing.values()) == [StateTopic("t", frozenset({0}))]
            await cluster.start_broker(1)
            assert partitions(await heartbeat(wire, "m", answer.member_epoch)) == [0]
            assert of(cluster).states.initializing == {}
            await heartbeat(wire, "m", -1)
            await cluster.stop_broker(1)
            assert await alter(wire, 5) is ErrorCode.COORDINATOR_NOT_AVAILABLE
            (result,) = (await wire.ask(DeleteGroupsRequest(groups_names=["g"]))).results
            assert result.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            await cluster.start_broker(1)
            (result,) = (await wire.ask(DeleteGroupsRequest(groups_names=["g"]))).results
            assert result.error_code == 0


async def test_invalid_start_offsets_are_refused(broker: Broker, wire: Wire) -> None:
    assert await alter(wire, -2) is ErrorCode.INVALID_REQUEST
    assert (await describe(wire)).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert await alter(wire, -1) is ErrorCode.NONE
    assert await begins(wire) == {("t", 0): -1}


async def test_a_transaction_cannot_commit_offsets_for_a_share_group(broker: Broker, wire: Wire) -> None:
    await heartbeat(wire, "m")
    for identity in (Identity(""), Identity("m", generation=2)):
        assert broker._running.groups.check_transactional_commit("g", identity, ()) is ErrorCode.GROUP_ID_NOT_FOUND


def states_asked(topic: bytes) -> list[Request[Any]]:
    """Return one request of each API for share partition states, in an order in which all succeed."""
    initialize, read, write, summary, delete = (
        initialize_share_group_state,
        read_share_group_state,
        write_share_group_state,
        read_share_group_state_summary,
        delete_share_group_state,
    )
    began = initialize.PartitionData(partition=0, state_epoch=1, start_offset=3)
    led = read.PartitionData(partition=0, leader_epoch=1)
    done = write.PartitionData(partition=0, state_epoch=1, leader_epoch=1, start_offset=4, state_batches=[])
    seen = summary.PartitionData(partition=0, leader_epoch=1)
    gone = delete.PartitionData(partition=0)
    return [
        initialize.InitializeShareGroupStateRequest(
            group_id="g", topics=[initialize.InitializeStateData(topic_id=topic, partitions=[began])]
        ),
        read.ReadShareGroupStateRequest(group_id="g", topics=[read.ReadStateData(topic_id=topic, partitions=[led])]),
        write.WriteShareGroupStateRequest(
            group_id="g", topics=[write.WriteStateData(topic_id=topic, partitions=[done])]
        ),
        summary.ReadShareGroupStateSummaryRequest(
            group_id="g", topics=[summary.ReadStateSummaryData(topic_id=topic, partitions=[seen])]
        ),
        delete.DeleteShareGroupStateRequest(
            group_id="g", topics=[delete.DeleteStateData(topic_id=topic, partitions=[gone])]
        ),
    ]


async def test_state_requests_to_another_node_fail_with_not_coordinator() -> None:
    async with Cluster(2, config=QUICK) as cluster:
        await cluster.create_topic("t", 1, 2)
        states = cluster._running.share_states
        assert states is not None
        topic = cluster._running.state.topics["t"].topic_id
        right = states.partition_of(key_of(SharePartitionKey("g", topic, 0))).leader
        async with connect(cluster, right) as wire, connect(cluster, 1 - right) as other:
            for request in states_asked(topic):
                for version in range(request.versions.lowest, request.versions.highest + 1):
                    refused = (await other.ask(request, version)).results[0].partitions[0]
                    assert refused.error_code == ErrorCode.NOT_COORDINATOR
                    assert (await wire.ask(request, version)).results[0].partitions[0].error_code == 0
