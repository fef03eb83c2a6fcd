"""The group leader's work: one member's malformed subscription does not affect the others."""

from __future__ import annotations

from typing import Any

from aiokproto.cluster import ClusterSnapshot, PartitionInfo
from aiokproto.group.assignors import RangeAssignor
from aiokproto.group.leader import Leader
from aiokproto.group.protocol import decode_assignment, encode_subscription
from tests.group.fake import FakeCluster, partitions, run


def subscription(*topics: str) -> tuple[str | None, bytes]:
    return None, encode_subscription(topics, None, [], -1, None)


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
