"""The embedded broker: Kafka for tests and small jobs, in this process.

Any Kafka client can use it over real sockets, and its logs are segment files in Kafka's format. It shares only the
codec and the record formats with this package's client, so it doesn't repeat the client's bugs.
"""

from __future__ import annotations

from aiokproto.broker.clock import VirtualClock
from aiokproto.broker.cluster import Broker, Cluster
from aiokproto.broker.control import Fault, FaultRule, Faults, GroupView, PartitionView, RequestInfo, Serve
from aiokproto.broker.security.settings import Security
from aiokproto.broker.threaded import ThreadedCluster

__all__ = [
    "Broker",
    "Cluster",
    "Fault",
    "FaultRule",
    "Faults",
    "GroupView",
    "PartitionView",
    "RequestInfo",
    "Security",
    "Serve",
    "ThreadedCluster",
    "VirtualClock",
]
