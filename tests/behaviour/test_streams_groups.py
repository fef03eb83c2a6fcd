"""Groups of the streams protocol (KIP-1071), request by request, on the embedded broker and on real Kafka."""

from __future__ import annotations

from typing import Any

import pytest

from aiokproto.broker.groups.streams import records
from aiokproto.broker.groups.streams.group import StreamsGroup
from aiokproto.broker.groups.streams.member import TaskRole
from aiokproto.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from aiokproto.codec.messages.delete_groups import DeleteGroupsRequest
from aiokproto.codec.messages.describe_groups import DescribeGroupsRequest
from aiokproto.codec.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.messages.streams_group_describe import DescribedGroup, StreamsGroupDescribeRequest
from aiokproto.codec.messages.streams_group_heartbeat import (
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from aiokproto.codec.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
)
from aiokproto.error_codes import ErrorCode
from tests.behaviour.coordinator import Coordinator, coordinator
from tests.behaviour.epoch_members import EpochMember, until
from tests.behaviour.test_group_records import written
from tests.broker.epoch_harness import Topics
from tests.clusters import BehaviourCluster
from tests.kafka.config import HEARTBEAT_MS

NO_SOURCE, SHUTDOWN = 1, 4
"""Statuses, with the protocol's numbers."""


def counting(topic: str, epoch: int = 0) -> Topology:
    """Words are repartitioned, and counted in a store."""
    compact = [KeyValue(key="cleanup.policy", value="compact")]
    return Topology(
        epoch=epoch,
        subtopologies=[
            _subtopology("0", sources=[topic], sinks=[f"{topic}-words"]),
            _subtopology(
                "1",
                repartitions=[TopicInfo(name=f"{topic}-words", partitions=0, replication_factor=0, topic_configs=[])],
                changelogs=[
                    TopicInfo(name=f"{topic}-counts", partitions=0, replication_factor=1, topic_configs=compact)
                ],
            ),
        ],
    )


def _subtopology(
    name: str,
    sources: list[str] | None = None,
    sinks: list[str] | None = None,
    repartitions: list[TopicInfo] | None = None,
    changelogs: list[TopicInfo] | None = None,
) -> Subtopology:
    return Subtopology(
        subtopology_id=name,
        source_topics=sources or [],
        source_topic_regex=[],
        state_changelog_topics=changelogs or [],
        repartition_sink_topics=sinks or [],
        repartition_source_topics=repartitions or [],
        copartition_groups=[],
    )


async def heartbeat(at: Coordinator, member_id: str, epoch: int, **fields: Any) -> StreamsGroupHeartbeatResponse:
    named: dict[str, Any] = {
        "group_id": at.group,
        "member_id": member_id,
        "member_epoch": epoch,
        "endpoint_information_epoch": 0,
    }
    return await at.ask(StreamsGroupHeartbeatRequest(**named | fields), lambda response: response.error_code)


def joining(topic: str) -> dict[str, Any]:
    """Return the fields of a heartbeat that joins."""
    return {
        "rebalance_timeout_ms": 30_000,
        "topology": counting(topic),
        "active_tasks": [],
        "standby_tasks": [],
        "warmup_tasks": [],
        "process_id": "p",
        "client_tags": [],
    }


class Thread(EpochMember[StreamsGroupHeartbeatResponse]):
    """A member of a streams group."""

    def __init__(self, at: Coordinator, member_id: str, **fields: Any) -> None:
        super().__init__(at, member_id, **joining(at.group) | {"process_id": member_id} | fields)
        self.tasks: set[tuple[str, int]] = set()
        self.statuses: list[int] = []

    async def send(self, epoch: int, **fields: Any) -> StreamsGroupHeartbeatResponse:
        return await heartbeat(self.at, self.member_id, epoch, **fields)

    def report(self) -> dict[str, Any]:
        return {"active_tasks": _ids(self.tasks), "standby_tasks": [], "warmup_tasks": []}

    def follow(self, response: StreamsGroupHeartbeatResponse) -> None:
        self.statuses = [each.status_code for each in response.status or []]
        if response.active_tasks is not None:
            self.tasks = {(each.subtopology_id, index) for each in response.active_tasks for index in each.partitions}

    async def leave(self, epoch: int = -1) -> None:
        await super().leave(epoch)
        self.tasks = set()


def _ids(tasks: set[tuple[str, int]]) -> list[TaskIds]:
    names = sorted({name for name, _ in tasks})
    return [TaskIds(subtopology_id=name, partitions=sorted(at for own, at in tasks if own == name)) for name in names]


async def describe(at: Coordinator) -> DescribedGroup:
    request = StreamsGroupDescribeRequest(group_ids=[at.group], include_authorized_operations=True)
    return (await at.ask(request, lambda response: response.groups[0].error_code)).groups[0]


async def settled(at: Coordinator, *threads: Thread) -> DescribedGroup:
    """Return the group's description once it's stable."""
    while (described := await describe(at)).group_state != "Stable":
        for thread in threads:
            await thread.beat()
    return described


ALL = {(name, index) for name in ("0", "1") for index in range(2)}


async def test_internal_topics_are_created_and_tasks_assigned(cluster: BehaviourCluster, topic: str) -> None:
    async with coordinator(cluster, topic) as at:
        first = Thread(at, "first")
        response = await first.beat()
        assert (response.heartbeat_interval_ms, response.task_offset_interval_ms) == (HEARTBEAT_MS, 60_000)
        assert (response.acceptable_recovery_lag, response.endpoint_information_epoch) == (10_000, 0)
        assert (response.active_tasks, response.standby_tasks, response.warmup_tasks) == ([], [], [])
        assert NO_SOURCE in first.statuses
        assert (await describe(at)).group_state == "NotReady"
        await cluster.create_topic(topic, partitions=2)
        await until(lambda: first.tasks == ALL, first)
        found = await (await at.connect()).ask(MetadataRequest(topics=None))
        sizes = {each.name: len(each.partitions) for each in found.topics if (each.name or "").startswith(topic)}
        assert sizes == {topic: 2, f"{topic}-words": 2, f"{topic}-counts": 2}
        assert (await at.listed("streams"))[topic] == ("streams", "Stable")
        assert topic not in await at.listed("classic", "consumer", "share")

        second = Thread(at, "second")
        while len(second.tasks) < 2:
            for thread in (first, second):
                await thread.beat()
                assert not first.tasks & second.tasks, "a task has one owner"
        assert first.tasks | second.tasks == ALL
        described = await settled(at, first, second)
        assert described.assignor_name == "sticky"
        assert described.group_epoch == described.assignment_epoch == first.epoch
        assert described.topology is not None
        assert [each.subtopology_id for each in described.topology.subtopologies or []] == ["0", "1"]
        (changelog,) = (described.topology.subtopologies or [])[1].state_changelog_topics
        assert (changelog.name, changelog.partitions) == (f"{topic}-counts", 2)
        for seen in described.members:
            thread = {"first": first, "second": second}[seen.member_id]
            assert (seen.member_epoch, seen.process_id) == (thread.epoch, seen.member_id)
            assigned = {(each.subtopology_id, at) for each in seen.assignment.active_tasks for at in each.partitions}
            assert assigned == thread.tasks
            assert seen.target_assignment == seen.assignment

        await second.leave()
        await until(lambda: first.tasks == ALL, first)
        await first.leave()
        empty = await describe(at)
        assert (empty.group_state, empty.members) == ("Empty", [])
        assert empty.group_epoch == empty.assignment_epoch


async def test_endpoints_are_sent_to_members_that_do_not_know_them(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    async with coordinator(cluster, topic) as at:
        # Kafka 4.4 fails on endpoints while it does not know the topics: a member without one has to join first.
        first = Thread(at, "first")
        await until(lambda: first.tasks == ALL, first)
        await first.leave()
        thread = Thread(at, "m", user_endpoint=Endpoint(host="h", port=1))
        await until(lambda: thread.tasks == ALL, thread)
        response = await thread.beat()
        assert response.endpoint_information_epoch > 0
        (endpoint,) = response.partitions_by_user_endpoint or []
        assert (endpoint.user_endpoint.host, endpoint.user_endpoint.port) == ("h", 1)
        read = {each.topic: each.partitions for each in endpoint.active_partitions}
        assert (read, endpoint.standby_partitions) == ({topic: [0, 1], f"{topic}-words": [0, 1]}, [])
        response = await thread.beat(endpoint_information_epoch=response.endpoint_information_epoch)
        assert response.partitions_by_user_endpoint is None


async def test_streams_group_records_are_restored(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    async with coordinator(cluster, topic) as at:
        first = Thread(at, "first", rack_id="r", client_tags=[KeyValue(key="zone", value="a")])
        second = Thread(at, "second", instance_id="i", user_endpoint=Endpoint(host="h", port=1))
        await until(lambda: first.tasks == ALL, first)
        await until(lambda: len(first.tasks) == len(second.tasks) == 2, first, second)
        described = await settled(at, first, second)
        image = {key: value for key, value in (await written(at)).items() if records.KEYS.group_of(key) == topic}
        group = StreamsGroup(topic, Topics(**{topic: 2, f"{topic}-words": 2, f"{topic}-counts": 2}))
        records.restore(group, image, 0.0)
        assert (group.epoch, group.assignment_epoch, group.state) == (first.epoch, first.epoch, "Stable")
        assert (group.validated_topology_epoch, group.topology and group.topology.epoch) == (0, 0)
        assert group.members["first"].tags == {"zone": "a"}
        for seen in described.members:
            member = group.members[seen.member_id]
            assert (member.epoch, member.instance_id, member.rack_id, member.process_id) == (
                seen.member_epoch,
                seen.instance_id,
                seen.rack_id,
                seen.process_id,
            )
            assert (member.endpoint and member.endpoint.host) == (seen.user_endpoint and seen.user_endpoint.host)
            thread = {"first": first, "second": second}[seen.member_id]
            assert {task.task_id for task in member.assigned if task.role is TaskRole.ACTIVE} == thread.tasks
        assert records.changes(group, dict(image), 0) == []


@pytest.mark.parametrize(
    ("member_id", "epoch", "fields", "error"),
    [
        ("", 0, {}, ErrorCode.INVALID_REQUEST),
        ("m", 0, {"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ("m", 0, {"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ("m", 0, {"rack_id": " "}, ErrorCode.INVALID_REQUEST),
        ("m", 0, {"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ("m", 0, {"topology": None}, ErrorCode.INVALID_REQUEST),
        ("m", 0, {"active_tasks": [TaskIds(subtopology_id="0", partitions=[0])]}, ErrorCode.INVALID_REQUEST),
        ("m", 0, {"standby_tasks": None}, ErrorCode.INVALID_REQUEST),
        ("m", 5, {}, ErrorCode.INVALID_REQUEST),
        ("m", 5, {"topology": None}, ErrorCode.GROUP_ID_NOT_FOUND),
        ("m", -1, {"topology": None}, ErrorCode.GROUP_ID_NOT_FOUND),
        ("m", -2, {"topology": None}, ErrorCode.INVALID_REQUEST),
        ("m", -3, {"topology": None}, ErrorCode.INVALID_REQUEST),
    ],
)
async def test_malformed_requests_are_refused(
    cluster: BehaviourCluster, topic: str, member_id: str, epoch: int, fields: dict[str, Any], error: ErrorCode
) -> None:
    async with coordinator(cluster, topic) as at:
        response = await heartbeat(at, member_id, epoch, **joining(topic) | fields)
        assert (ErrorCode(response.error_code), bool(response.error_message)) == (error, True)
        assert (response.member_id, response.member_epoch, response.heartbeat_interval_ms) == ("", 0, 0)


async def test_invalid_topologies_are_refused(cluster: BehaviourCluster, topic: str) -> None:
    fixed = counting(topic)
    fixed.subtopologies[1].state_changelog_topics[0].partitions = 3
    patterns = counting(topic)
    patterns.subtopologies[0].source_topic_regex = ["a.*"]
    async with coordinator(cluster, topic) as at:
        for wrong, error in ((fixed, ErrorCode.STREAMS_INVALID_TOPOLOGY), (patterns, ErrorCode.INVALID_REQUEST)):
            response = await heartbeat(at, "m", 0, **joining(topic) | {"topology": wrong})
            assert ErrorCode(response.error_code) is error
        assert (await describe(at)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_members_are_fenced_by_member_id_and_epoch(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    async with coordinator(cluster, topic) as at:
        thread = Thread(at, "m")
        await until(lambda: thread.tasks == ALL, thread)
        own: dict[str, Any] = {"standby_tasks": [], "warmup_tasks": []}
        wrong = {"active_tasks": [TaskIds(subtopology_id="9", partitions=[0])], **own}
        for member_id, epoch, fields, error in (
            ("m", thread.epoch, wrong, ErrorCode.INVALID_REQUEST),
            ("m", thread.epoch + 1, {}, ErrorCode.FENCED_MEMBER_EPOCH),
            ("x", thread.epoch, {}, ErrorCode.UNKNOWN_MEMBER_ID),
            ("x", -1, {}, ErrorCode.UNKNOWN_MEMBER_ID),
            ("n", 0, joining(topic) | {"topology": counting(topic, epoch=1)}, ErrorCode.INVALID_REQUEST),
        ):
            response = await heartbeat(at, member_id, epoch, **fields)
            assert ErrorCode(response.error_code) is error
        assert await at.commit("m", thread.epoch, topic) == ErrorCode.NONE
        assert await at.commit("m", thread.epoch + 1, topic) == ErrorCode.STALE_MEMBER_EPOCH
        assert await at.commit("x", thread.epoch, topic) == ErrorCode.UNKNOWN_MEMBER_ID
        assert await at.commit("m", thread.epoch, topic, version=8) == ErrorCode.UNSUPPORTED_VERSION
        assert await at.fetch("m", thread.epoch, topic) == 7
        assert await at.fetch("m", thread.epoch + 1, topic) == ErrorCode.STALE_MEMBER_EPOCH
        await thread.beat(shutdown_application=True)
        assert SHUTDOWN in thread.statuses


async def test_requests_of_other_protocols_are_refused_by_a_streams_group(
    cluster: BehaviourCluster, topic: str
) -> None:
    await cluster.create_topic(topic, partitions=2)
    async with coordinator(cluster, topic) as at:
        thread = Thread(at, "m")
        await thread.beat()
        wire = await at.connect()
        joined = await wire.ask(
            JoinGroupRequest(
                group_id=topic,
                session_timeout_ms=10_000,
                rebalance_timeout_ms=10_000,
                member_id="",
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(10))],
            )
        )
        assert joined.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        heartbeat = await wire.ask(
            ConsumerGroupHeartbeatRequest(
                group_id=topic,
                member_id="c",
                member_epoch=0,
                rebalance_timeout_ms=1000,
                subscribed_topic_names=[topic],
                topic_partitions=[],
            )
        )
        assert heartbeat.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        (group,) = (await wire.ask(DescribeGroupsRequest(groups=[topic]))).groups
        assert (group.error_code, group.group_state) == (ErrorCode.GROUP_ID_NOT_FOUND, "Dead")
        update = StreamsGroupTopologyDescriptionUpdateRequest(
            group_id=topic,
            member_id="m",
            topology_epoch=0,
            topology_description=TopologyDescription(subtopologies=[], global_stores=[]),
        )
        assert (await wire.ask(update)).error_code == ErrorCode.UNSUPPORTED_VERSION
        deleted = await wire.ask(DeleteGroupsRequest(groups_names=[topic]))
        assert deleted.results[0].error_code == ErrorCode.NON_EMPTY_GROUP
        await thread.leave()
        deleted = await wire.ask(DeleteGroupsRequest(groups_names=[topic]))
        assert deleted.results[0].error_code == ErrorCode.NONE
        assert (await describe(at)).error_code == ErrorCode.GROUP_ID_NOT_FOUND


async def test_a_static_member_keeps_its_tasks_while_it_is_away(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    async with coordinator(cluster, topic) as at:
        thread = Thread(at, "m", instance_id="i")
        await until(lambda: thread.tasks == ALL, thread)
        again = Thread(at, "n", instance_id="i")
        response = await heartbeat(at, "n", 0, **again.fields)
        assert response.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
        await thread.leave(epoch=-2)
        assert (await describe(at)).members[0].member_epoch == -2
        await until(lambda: again.tasks == ALL, again)
        assert [seen.member_id for seen in (await describe(at)).members] == ["n"]
