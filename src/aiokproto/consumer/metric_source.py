"""What a consumer pushes to its brokers as metrics (KIP-714)."""

from __future__ import annotations

from aiokproto.cluster import ClusterClient
from aiokproto.consumer.assignment import Assignment
from aiokproto.group.member import GroupMember
from aiokproto.observe.metrics import MetricSource
from aiokproto.observe.observers import ConsumerObserver


def metric_source(
    cluster: ClusterClient, observer: ConsumerObserver, assignment: Assignment, member: GroupMember | None
) -> MetricSource:
    """Return the metrics of a consumer; ``member`` is None without a group."""
    return MetricSource(
        "consumer",
        cluster.observer,
        consumer=observer,
        rebalances=None if member is None else lambda: member.rebalances,
        assigned=lambda: len(assignment.cursors),
        labels=lambda: {} if member is None else _labels(member),
    )


def _labels(member: GroupMember) -> dict[str, str]:
    who = member.metadata
    labels = {
        "group_id": who.group_id,
        "group_member_id": who.member_id,
        "group_instance_id": who.instance_id or "",
    }
    return {name: value for name, value in labels.items() if value}
