"""The cluster as a client sees it: its metadata, and any request to the broker that serves it."""

from __future__ import annotations

from aiokproto.cluster.cluster_client import ClusterClient
from aiokproto.cluster.coordinators import CoordinatorKind
from aiokproto.cluster.snapshot import BrokerNode, ClusterSnapshot, PartitionInfo, TopicInfo

__all__ = ["BrokerNode", "ClusterClient", "ClusterSnapshot", "CoordinatorKind", "PartitionInfo", "TopicInfo"]
