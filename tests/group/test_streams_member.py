"""A member of a streams group against a coordinator in memory: what its heartbeats carry, and what responses do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from aiokproto.codec.messages.streams_group_heartbeat import (
    Endpoint,
    EndpointToPartitions,
    Status,
    StreamsGroupHeartbeatRequest,
    TaskIds,
    TopicPartition,
)
from aiokproto.codec.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    TopologyDescription,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerConnectionError, ConfigurationError, KafkaError
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
from aiokproto.types import TopicPartition as Partition
from tests.group.epoch_fake import INTERVAL, FakeStreamsGroup
from tests.group.fake import FakeCluster, run
from tests.group.harness import MemberHarness, running

ACTIVE, STANDBY, WARMUP = TaskRole
TOPOLOGY = StreamsTopology((Subtopology("0", ("b", "a"), (InternalTopic("r"),), copartitioned=(frozenset("ar"),)),))


def tasks(role: TaskRole, *numbers: int) -> frozenset[StreamsTask]:
    return frozenset(StreamsTask(role, "0", number) for number in numbers)


class Recorder(StreamsListener):
    """Notes what happens, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    async def assigned(self, tasks: frozenset[StreamsTask]) -> None:
        self.events.append(("assigned", tasks))

    async def revoked(self, tasks: frozenset[StreamsTask]) -> None:
        self.events.append(("revoked", tasks))

    async def lost(self, tasks: frozenset[StreamsTask]) -> None:
        self.events.append(("lost", tasks))

    def removed(self) -> None:
        self.events.append(("removed", None))

    def status_changed(self, statuses: tuple[StreamsStatus, ...]) -> None:
        self.events.append(("status", statuses))

    def endpoints_changed(self, endpoints: Mapping[StreamsEndpoint, EndpointPartitions]) -> None:
        self.events.append(("endpoints", endpoints))


class Harness(MemberHarness):
    """The only member of a streams group."""

    heartbeats = StreamsGroupHeartbeatRequest
    member: StreamsMember

    def __init__(self, listener: Recorder | None = None, **options: Any) -> None:
        cluster: Any = FakeCluster()
        cluster.group = self.group = FakeStreamsGroup()
        self.group.assign_tasks(active_tasks=[0, 1])
        self.listener = listener or Recorder()
        super().__init__(cluster, StreamsMember(cluster, "g", TOPOLOGY, self.listener, **options))

    @property
    def events(self) -> list[tuple[str, Any]]:
        return self.listener.events


def harness(**options: Any) -> AbstractAsyncContextManager[Harness]:
    return running(Harness(**options), 0.5)


def test_only_a_heartbeat_that_joins_carries_the_topology() -> None:
    async def program() -> None:
        async with harness(process_id="p", endpoint=StreamsEndpoint("h", 7), client_tags={"zone": "a"}) as it:
            it.script(BrokerConnectionError("lost"))
            await asyncio.sleep(2 * INTERVAL)
            first, *others = it.beats
            assert (first.process_id, first.user_endpoint) == ("p", Endpoint(host="h", port=7))
            assert (first.active_tasks, first.standby_tasks, first.warmup_tasks) == ([], [], [])
            assert first.topology == TOPOLOGY.encode()
            assert all(beat.topology is None for beat in others)
            # Everything else again after a failure, since nobody knows what has arrived.
            assert len([beat for beat in others if beat.process_id == "p"]) == 1

    run(program())


def test_the_topology_is_encoded_in_kafkas_order() -> None:
    (part,) = TOPOLOGY.encode().subtopologies
    assert part.source_topics == ["a", "b"]
    (group,) = part.copartition_groups
    assert (group.source_topics, group.repartition_source_topics) == ([0], [0])
    assert TOPOLOGY.inputs_of(tasks(ACTIVE, 1) | tasks(STANDBY, 0)) == {Partition(name, 1) for name in ("a", "b", "r")}


def test_tasks_of_all_roles_are_reported_together() -> None:
    async def program() -> None:
        async with harness() as it:
            it.group.assign_tasks(standby_tasks=[3])
            await asyncio.sleep(INTERVAL + 0.5)
            reports = [beat for beat in it.beats if beat.active_tasks is not None]
            assert all(None not in (beat.standby_tasks, beat.warmup_tasks) for beat in reports)
            assert reports[-1].standby_tasks == [TaskIds(subtopology_id="0", partitions=[3])]

    run(program())


def test_a_task_that_changes_its_role_is_revoked_and_assigned() -> None:
    async def program() -> None:
        async with harness() as it:
            it.group.assign_tasks(active_tasks=[0], warmup_tasks=[1])
            await asyncio.sleep(INTERVAL + 0.5)
            assert it.events == [
                ("assigned", tasks(ACTIVE, 0, 1)),
                ("revoked", tasks(ACTIVE, 1)),
                ("assigned", tasks(WARMUP, 1)),
            ]
            assert it.member.tasks == tasks(ACTIVE, 0) | tasks(WARMUP, 1)

    run(program())


def test_a_fenced_member_stops_at_once_and_joins_again() -> None:
    async def program() -> None:
        async with harness() as it:
            it.script(ErrorCode.FENCED_MEMBER_EPOCH)
            await asyncio.sleep(INTERVAL + 0.5)
            names = [name for name, _ in it.events]
            assert names == ["assigned", "removed", "lost", "assigned"]
            assert [beat.topology is not None for beat in it.beats if beat.member_epoch == 0] == [True, True]

    run(program())


def test_offsets_are_sent_at_the_interval_that_the_broker_sets() -> None:
    async def program() -> None:
        async with harness() as it:
            # With the interval of ten seconds, three times: at once, and with the next heartbeats after 10 and 20.
            for offset in range(25):
                it.member.report_offsets({("0", 1): offset}, {("0", 1): 100})
                await asyncio.sleep(1)
            sent = [beat.task_offsets[0].offset for beat in it.beats if beat.task_offsets is not None]
            assert len(sent) == 3
            assert all(beat.task_end_offsets for beat in it.beats[:1] if beat.task_offsets)

    run(program())


def test_status_and_endpoints_are_passed_on_when_they_change() -> None:
    async def program() -> None:
        async with harness() as it:
            status = [Status(status_code=1, status_detail="t is missing"), Status(status_code=99)]
            entry = EndpointToPartitions(
                user_endpoint=Endpoint(host="h", port=7),
                active_partitions=[TopicPartition(topic="a", partitions=[0])],
                standby_partitions=[],
            )
            it.group.more = {
                "status": status,
                "endpoint_information_epoch": 4,
                "partitions_by_user_endpoint": [entry, entry],
            }
            await asyncio.sleep(INTERVAL)
            found = (
                StreamsStatus(StatusCode.MISSING_SOURCE_TOPICS, "t is missing"),
                StreamsStatus(StatusCode.UNKNOWN, ""),
            )
            where = {StreamsEndpoint("h", 7): EndpointPartitions(frozenset({Partition("a", 0)}), frozenset())}
            assert it.events[1:] == [("status", found), ("endpoints", where)]
            assert "t is missing" in it.member.problem
            it.group.more = {"endpoint_information_epoch": 4}
            await asyncio.sleep(INTERVAL)
            assert it.beats[-1].endpoint_information_epoch == 4
            assert it.events[3:] == [("status", ())]

    run(program())


class Slow(Recorder):
    """Awaits what changes, one second each."""

    async def status_changed(self, statuses: tuple[StreamsStatus, ...]) -> None:  # type: ignore[override]
        await asyncio.sleep(2.5 * INTERVAL)
        super().status_changed(statuses)
        assert not statuses or statuses[0].detail != "fail"


def test_a_listener_can_await_what_changes_while_the_member_goes_on() -> None:
    async def program() -> None:
        async with harness(listener=Slow()) as it:
            for detail in ("first", "second", "third"):
                it.group.more = {"status": [Status(status_code=1, status_detail=detail)]}
                await asyncio.sleep(INTERVAL)
            await asyncio.sleep(5 * INTERVAL)
            missing = StatusCode.MISSING_SOURCE_TOPICS
            # What has changed twice while the first call ran is reported once, as it is then.
            assert it.events[1:] == [("status", (StreamsStatus(missing, detail),)) for detail in ("first", "third")]
            assert len(it.beats) > 6
            it.group.more = {"status": [Status(status_code=1, status_detail="fail")]}
            with pytest.raises(AssertionError):
                await it.task

    run(program())


def test_a_shutdown_is_requested_at_once_and_only_once() -> None:
    async def program() -> None:
        async with harness() as it:
            it.member.request_shutdown()
            await asyncio.sleep(3 * INTERVAL)
            assert [beat.shutdown_application for beat in it.beats].count(True) == 1

    run(program())


@pytest.mark.parametrize(("code", "sends"), [(ErrorCode.NONE, 2), (ErrorCode.UNSUPPORTED_VERSION, 1)])
def test_the_topology_is_described_when_the_broker_asks_for_it(code: ErrorCode, sends: int) -> None:
    async def program() -> None:
        async with harness(description=TopologyDescription()) as it:
            it.cluster.next[StreamsGroupTopologyDescriptionUpdateRequest] = [int(code)]
            for _ in range(2):
                it.group.more = {"topology_description_required": True}
                await asyncio.sleep(INTERVAL + 0.1)
            sent = it.cluster.sent(StreamsGroupTopologyDescriptionUpdateRequest)
            assert [each.member_id for each in sent] == [it.member.member_id] * sends
            assert not it.task.done()

    run(program())


@pytest.mark.parametrize("code", [ErrorCode.STREAMS_INVALID_TOPOLOGY, ErrorCode.STREAMS_TOPOLOGY_FENCED])
def test_a_topology_that_the_group_refuses_ends_the_member(code: ErrorCode) -> None:
    async def program() -> None:
        async with harness() as it:
            it.script(code)
            with pytest.raises(KafkaError, match=code.name):
                await it.task

    run(program())


def test_an_exception_of_the_listener_ends_the_member() -> None:
    async def program() -> None:
        async with harness() as it:

            async def fail(tasks: frozenset[StreamsTask]) -> None:
                raise ZeroDivisionError

            it.listener.revoked = fail  # type: ignore[method-assign]
            it.group.assign_tasks(active_tasks=[0])
            with pytest.raises(ZeroDivisionError):
                await it.task

    run(program())


def test_wrong_topologies_are_refused_where_they_are_made() -> None:
    with pytest.raises(ConfigurationError, match="copartitioned x"):
        Subtopology("0", ("a",), copartitioned=(frozenset("ax"),))
    with pytest.raises(ConfigurationError, match="different ids"):
        StreamsTopology((Subtopology("0"), Subtopology("0")))


def test_arguments_of_a_wrong_kind_are_refused() -> None:
    class Awaited(StreamsListener):
        async def removed(self) -> None:  # type: ignore[override]
            pass

    class NotAwaited(StreamsListener):
        def revoked(self, tasks: frozenset[StreamsTask]) -> None:  # type: ignore[override]
            pass

    cluster: Any = FakeCluster()
    topology: Any = "0"
    with pytest.raises(ConfigurationError, match="expected a StreamsTopology"):
        StreamsMember(cluster, "g", topology, StreamsListener())
    with pytest.raises(ConfigurationError, match=r"removed\(\) is not awaited"):
        StreamsMember(cluster, "g", TOPOLOGY, Awaited())
    with pytest.raises(ConfigurationError, match=r"revoked\(\) is awaited"):
        StreamsMember(cluster, "g", TOPOLOGY, NotAwaited())
    for name in ("rebalance_timeout_ms", "session_timeout_ms"):
        options: dict[str, Any] = {name: 0}
        with pytest.raises(ConfigurationError, match=name):
            StreamsMember(cluster, "g", TOPOLOGY, StreamsListener(), **options)
    names: Any = "in"
    with pytest.raises(ConfigurationError, match="source_topics='in': expected a tuple of names"):
        Subtopology("0", source_topics=names)
