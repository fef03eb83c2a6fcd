"""The group leader's work: one member's malformed subscription does not affect the others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from aiokproto.cluster import BrokerNode, ClusterSnapshot, PartitionInfo
from aiokproto.group.assignors import Assignment, Assignor, Members, Racks, RangeAssignor, make_assignors
from aiokproto.group.leader import Leader
from aiokproto.group.protocol import decode_assignment, encode_subscription
from tests.group.fake import FakeCluster, partitions, run


def subscription(*topics: str, rack: str | None = None) -> tuple[str | None, bytes]:
    return None, encode_subscription(topics, None, [], -1, rack)


def leader(cluster: Any) -> Leader:
    return Leader(cluster, "g")


def test_every_member_is_assigned_its_partitions() -> None:
    async def program() -> None:
        assigned = await leader(FakeCluster(t=4)).assign(
            RangeAssignor(), {"a": subscription("t"), "b": subscription("t")}
        )
        assert {name: decode_assignment(data) for name, data in assigned.items()} == {
            "a": partitions("t", 0, 1),
            "b": partitions("t", 2, 3),
        }

    run(program())


def test_malformed_subscriptions_and_missing_topics_do_not_affect_other_members() -> None:
    async def program() -> None:
        members = {"a": subscription("t", "missing"), "b": (None, b"\xff"), "c": subscription("missing")}
        assigned = await leader(FakeCluster(t=2)).assign(RangeAssignor(), members)
        assert {name: decode_assignment(data) for name, data in assigned.items()} == {
            "a": partitions("t", 0, 1),
            "b": [],
            "c": [],
        }

    run(program())


def test_the_assignment_is_outdated_when_partitions_or_topics_were_added() -> None:
    async def program() -> None:
        cluster = FakeCluster(t=2)
        leads = leader(cluster)
        await leads.assign(RangeAssignor(), {"a": subscription("t", "late")})
        assert leads.outdated(cluster.snapshot) == ""
        assert leads.outdated(ClusterSnapshot()) == "", "a topic that is not in the metadata has not changed"
        info = cluster.snapshot.topics["t"]
        grown = ClusterSnapshot(topics={"t": info._replace(partitions=(PartitionInfo(0),) * 3)})
        assert leads.outdated(grown) == "topic 't' has 3 partitions, not 2"
        assert "late" in leads.outdated(FakeCluster(t=2, late=1).snapshot)

    run(program())


def test_a_topic_that_does_not_exist_by_the_metadata_is_not_waited_for() -> None:
    async def program() -> None:
        cluster = FakeCluster(t=2)
        cluster.known_absent = frozenset({"gone"})
        asked = []

        async def topic(name: str, timeout: float) -> Any:
            asked.append(name)
            return await FakeCluster.topic(cluster, name, timeout)

        cluster.topic = topic  # type: ignore[method-assign]
        leads = leader(cluster)
        await leads.assign(RangeAssignor(), {"a": subscription("t", "gone", "new")})
        assert asked == ["new"]
        assert cluster.invalidated, "refreshes ask for it"
        assert leads.outdated(FakeCluster(t=2, gone=1).snapshot) == "topic 'gone' has 1 partition, not 0"

    run(program())


class ThreadedCluster(FakeCluster):
    """Knows whether the running code was given to a thread."""

    in_thread = False

    def run_in_thread(self, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        def marked() -> Any:
            self.in_thread = True
            try:
                return function(*args)
            finally:
                self.in_thread = False

        return super().run_in_thread(marked)


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "sticky", "cooperative-sticky", "loop", "thread"])
def test_assignors_run_in_a_thread_and_the_applications_own_in_the_loop_by_default(strategy: str) -> None:
    cluster = ThreadedCluster(t=4)
    ran: list[bool] = []

    class Own(Assignor):
        name = "own"

        def assign(self, partitions: Mapping[str, int], members: Members, racks: Racks) -> Assignment:
            ran.append(cluster.in_thread)
            return RangeAssignor().assign(partitions, members, racks)

    class Threaded(Own):
        in_thread = True

    async def program() -> None:
        own = {"loop": Own, "thread": Threaded}
        [assignor] = [own[strategy]()] if strategy in own else make_assignors([strategy])
        assigned = await leader(cluster).assign(assignor, {"a": subscription("t"), "b": subscription("t")})
        assert {name: len(decode_assignment(data)) for name, data in assigned.items()} == {"a": 2, "b": 2}
        assert ran == {"loop": [False], "thread": [True]}.get(strategy, [])
        assert assignor.in_thread == (strategy != "loop")

    run(program())


def racked(cluster: FakeCluster, replicas: list[tuple[int, ...]], *racks: str) -> ClusterSnapshot:
    brokers = {node: BrokerNode(node, "localhost", 9092, rack) for node, rack in enumerate(racks)}
    info = cluster.snapshot.topics["t"]._replace(partitions=tuple(PartitionInfo(0, 0, each) for each in replicas))
    return replace(cluster.snapshot, brokers=brokers, topics={"t": info})


def test_members_get_partitions_with_replicas_in_their_rack() -> None:
    async def program() -> None:
        cluster = FakeCluster(t=4)
        cluster.snapshot = racked(cluster, [(0,), (1,), (0,), (1,)], "east", "west")
        members = {"a": subscription("t", rack="west"), "b": subscription("t", rack="east")}
        for strategy in ("range", "sticky", "cooperative-sticky"):
            [assignor] = make_assignors([strategy])
            assigned = await leader(cluster).assign(assignor, members)
            assert {name: sorted(decode_assignment(data)) for name, data in assigned.items()} == {
                "a": partitions("t", 1, 3),
                "b": partitions("t", 0, 2),
            }

    run(program())


def test_the_assignment_is_outdated_when_replicas_are_in_other_racks_but_not_when_a_broker_is_away() -> None:
    async def program() -> None:
        cluster = FakeCluster(t=2)
        cluster.snapshot = racked(cluster, [(0,), (1,)], "east", "west")
        leads = leader(cluster)
        await leads.assign(RangeAssignor(), {"a": subscription("t", rack="west")})
        assert leads.outdated(cluster.snapshot) == ""
        assert "racks" in leads.outdated(racked(cluster, [(1,), (0,)], "east", "west"))
        assert leads.outdated(racked(cluster, [(0,), (1,)], "east")) == ""
        await leads.assign(RangeAssignor(), {"a": subscription("t")})
        assert leads.outdated(racked(cluster, [(1,), (0,)], "east", "west")) == "", "no member has named its rack"

    run(program())
