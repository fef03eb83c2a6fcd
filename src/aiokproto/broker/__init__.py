"""The embedded broker: Kafka for tests and small jobs, in this process.

It speaks the protocol over real sockets to any client, and keeps real segment files. It shares nothing with this
package's client but the codec and the records.
"""

from __future__ import annotations

from aiokproto.broker.clock import VirtualClock
from aiokproto.broker.cluster import Broker, Cluster
from aiokproto.broker.control import Call, Fault, Faults, GroupView, PartitionView, Rule, Serve
from aiokproto.broker.security.settings import Security

__all__ = [
    "Broker",
    "Call",
    "Cluster",
    "Fault",
    "Faults",
    "GroupView",
    "PartitionView",
    "Rule",
    "Security",
    "Serve",
    "VirtualClock",
]
