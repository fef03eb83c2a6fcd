"""The embedded broker: Kafka for tests and small jobs, in this process.

It speaks the protocol over real sockets to any client, and stores real segment files. It shares only the codec and the
records with this package's client: a test of the client against a broker of the same parts would prove little.
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
