"""The cluster as a client sees it: its metadata, and the routing of each request to the broker that serves it.

Producer, consumer, group and ``Client`` are all built on :class:`~aiokproto.cluster.cluster_client.ClusterClient`.

Metadata
    ``snapshot`` is an immutable :class:`~aiokproto.cluster.snapshot.ClusterSnapshot`. Its only writer is ``metadata``,
    whose task refreshes it when a call needs a new topic, when a partition has no leader, when the metadata reaches its
    maximum age, and after a call of ``invalidate()``, which every part of the client makes when a broker returned
    NOT_LEADER_OR_FOLLOWER or a connection was lost. Refreshes are coalesced and spaced by a backoff, so thousands of
    failures cause one request. ``tracked_topics`` decides which topics a refresh requests.

Requests
    ``broker_lookup`` finds the broker for a request (any, controller, partition leader, coordinator, every broker);
    ``division`` divides it among several brokers and joins their responses; ``cluster_client`` makes the attempts and
    retries until the deadline; ``hedge`` sends to a second broker when the first is silent. Only
    :mod:`aiokproto.failures` decides whether an error is retried, and what happens before the retry.

Connections
    ``pool`` keeps one connection per broker and channel, dialled once for all callers, with a backoff per broker.

Deadlines
    A deadline is set once, by the public call, and passed down as a point in time. Each attempt gets
    ``request_timeout_ms`` or the time left, whichever is shorter. Work that callers share (a dial, a coordinator
    lookup, a metadata refresh) has its own deadline, so a caller that times out or is cancelled does not end it for the
    other callers.
"""

from __future__ import annotations

from aiokproto.cluster.cluster_client import ClusterClient
from aiokproto.cluster.coordinators import CoordinatorKind
from aiokproto.cluster.snapshot import BrokerNode, ClusterSnapshot, PartitionInfo, TopicInfo

__all__ = ["BrokerNode", "ClusterClient", "ClusterSnapshot", "CoordinatorKind", "PartitionInfo", "TopicInfo"]
