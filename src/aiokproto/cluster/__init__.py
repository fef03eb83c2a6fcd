"""The cluster as clients see it: who is who, and any request to whom it concerns."""

from __future__ import annotations

from aiokproto.cluster.cluster import Cluster
from aiokproto.cluster.coordinators import CoordinatorKind
from aiokproto.cluster.snapshot import BrokerNode, ClusterSnapshot, PartitionInfo, TopicInfo

__all__ = ["BrokerNode", "Cluster", "ClusterSnapshot", "CoordinatorKind", "PartitionInfo", "TopicInfo"]
