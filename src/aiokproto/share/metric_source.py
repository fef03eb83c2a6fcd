"""What a share consumer pushes to its brokers as metrics (KIP-714), with the names of the Java client."""

from __future__ import annotations

from aiokproto.cluster import ClusterClient
from aiokproto.group.share_member import ShareMember
from aiokproto.observe.metrics import MetricSource, ShareMetrics
from aiokproto.observe.observers import ShareObserver
from aiokproto.share.reader import ShareReader


def metric_source(
    cluster: ClusterClient, observer: ShareObserver, reader: ShareReader, member: ShareMember, group_id: str
) -> MetricSource:
    """Return the metrics of a share consumer."""
    return MetricSource(
        "consumer",
        cluster.observer,
        share=ShareMetrics(observer, lambda: reader.delivered, lambda: member.rebalances, lambda: member.heartbeats),
        labels=lambda: {"group_id": group_id, "group_member_id": member.member_id},
    )
