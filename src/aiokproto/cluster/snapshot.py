"""The cluster metadata, immutable, and how a Metadata response updates it (pure).

A response can be older than what the client knows: brokers learn of a leader change at different times. For each
partition the higher leader epoch wins, within one topic id (KIP-320); a topic that was deleted and recreated starts
over. A lower epoch is believed when several consecutive responses contain it: a cluster that was restored, or lost its
last leader's metadata, continues from an older epoch, and a client that insisted on the newer one would never find the
leader.

A topic never loses partitions; Kafka can only add them. Partitions that a response leaves out stay as they were, and
are requested again. If topics have no ids (before 2.8), a smaller topic may be a new topic of the same name. It is
believed when several consecutive responses agree.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from aiokproto.codec.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.config import MAX_PORT
from aiokproto.error_codes import ErrorCode
from aiokproto.texts import address

NO_LEADER = -1
MAX_REWINDS = 5
"""How many consecutive responses with a lower leader epoch count as outdated. The next one is believed, as in
franz-go."""
MAX_OMISSIONS = 9
"""How many consecutive responses may leave out partitions of a topic without an id before they are believed. After the
same number, a missing topic counts as deleted."""
LONGEST_HOST = 255
"""Maximum length of a DNS name."""

_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class BrokerNode(NamedTuple):
    """A broker and its advertised address.

    Negative ids are for bootstrap addresses, whose real node ids are still unknown.
    """

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """``host:port``, with brackets for IPv6."""
        return address(self.host, self.port)

    def __str__(self) -> str:
        return self.address if self.id < 0 else f"broker {self.id} ({self.address})"


class NodeEndpoint(Protocol):
    """The address of a new leader in a Produce, Fetch, ShareFetch or ShareAcknowledge response (KIP-951)."""

    node_id: int
    host: str
    port: int
    rack: str | None


class PartitionInfo(NamedTuple):
    """A partition: leader, leader epoch (-1: unknown), replicas, and in-sync replicas.

    ``leader`` is -1 if there is none; prefer :meth:`ClusterSnapshot.leader`. ``rewinds`` counts the consecutive
    responses with a lower leader epoch.
    """

    leader: int = NO_LEADER
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    rewinds: int = 0


class TopicInfo(NamedTuple):
    """A topic; ``partitions`` are in index order. ``topic_id`` is 16 zero bytes from brokers before 2.8 (KIP-516).

    ``omissions`` counts the consecutive responses that left out partitions.
    """

    name: str
    topic_id: bytes
    partitions: tuple[PartitionInfo, ...]
    is_internal: bool = False
    omissions: int = 0


@dataclass(frozen=True)
class ClusterSnapshot:
    """The cluster metadata at one moment. ``topics`` contains only the tracked topics.

    ``generation`` grows with every Metadata response, even one that changes nothing.
    """

    brokers: Mapping[int, BrokerNode] = field(default_factory=dict)
    controller_id: int = -1
    cluster_id: str | None = None
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)
    topic_names: Mapping[bytes, str] = field(default_factory=dict)
    generation: int = 0

    def partition(self, topic: str, partition: int) -> PartitionInfo | None:
        """Return a partition's metadata, or None if the partition is unknown."""
        info = self.topics.get(topic)
        return info.partitions[partition] if info and 0 <= partition < len(info.partitions) else None

    def leader(self, topic: str, partition: int) -> int | None:
        """Return the leader's node id, or None if the partition has no leader or is unknown."""
        info = self.partition(topic, partition)
        return info.leader if info and info.leader >= 0 else None

    def leader_epoch(self, topic: str, partition: int) -> int:
        """Return the partition's leader epoch, or -1 if it is unknown."""
        info = self.partition(topic, partition)
        return info.leader_epoch if info else -1

    def topic_name(self, topic_id: bytes) -> str | None:
        """Return the name of the topic with this id, or None if it is unknown."""
        return self.topic_names.get(topic_id)

    def leaderless(self, topics: Collection[str]) -> list[tuple[str, int]]:
        """Return the partitions of these topics that have no leader."""
        return [
            (name, index)
            for name in topics
            if name in self.topics
            for index, info in enumerate(self.topics[name].partitions)
            if info.leader < 0
        ]

    def recreated(self, topic_ids: Mapping[str, bytes]) -> list[str]:
        """Return the topics that were deleted and recreated since they had these topic ids.

        Offsets and sequence numbers of the old topic are meaningless in the new one. Brokers before 2.8 have no topic
        ids, so this can't be detected there.
        """
        return [
            name
            for name, before in topic_ids.items()
            if name in self.topics and ZERO_UUID not in (before, now := self.topics[name].topic_id) and now != before
        ]

    def without(self, topics: Collection[str]) -> ClusterSnapshot:
        """Return a snapshot without these topics, or this snapshot if it contains none of them."""
        left = {name: info for name, info in self.topics.items() if name not in topics}
        if len(left) == len(self.topics):
            return self
        names = {topic_id: name for topic_id, name in self.topic_names.items() if name in left}
        return replace(self, topics=left, topic_names=names, generation=self.generation + 1)

    def with_broker(self, node: BrokerNode) -> ClusterSnapshot:
        """Return a snapshot with this broker added, or its address updated."""
        return replace(self, brokers={**self.brokers, node.id: node}, generation=self.generation + 1)

    def with_leader(
        self, topic: str, partition: int, leader: int, leader_epoch: int, endpoints: Iterable[NodeEndpoint] = ()
    ) -> ClusterSnapshot:
        """Return a snapshot with a newer leader of a partition, or this one if the epoch is not newer (KIP-951).

        ``endpoints`` can include the address of a leader that the metadata does not list yet.
        """
        known = self.partition(topic, partition)
        if known is None or leader_epoch <= known.leader_epoch:
            return self
        brokers = self.brokers
        for node in endpoints:
            if node.node_id == leader and is_address(node.node_id, node.host, node.port):
                brokers = {**brokers, leader: BrokerNode(leader, node.host, node.port, node.rack)}
        # A leader without a known address can't be dialled. Wait for the next Metadata response, which contains both.
        if leader not in brokers:
            return self
        info = self.topics[topic]
        partitions = list(info.partitions)
        partitions[partition] = known._replace(leader=leader, leader_epoch=leader_epoch)
        topics = {**self.topics, topic: info._replace(partitions=tuple(partitions))}
        return replace(self, brokers=brokers, topics=topics, generation=self.generation + 1)

    def updated(
        self, response: MetadataResponse, keep: Collection[str] | None = None, drop: Iterable[str] = ()
    ) -> ClusterSnapshot:
        """Return the snapshot after a Metadata response.

        Topics that are missing from the response, or have an error in it, stay as they were: a broker that has just
        started can know less than this client. Topics in ``drop`` are known to be deleted. Only topics in ``keep`` are
        stored (None for all).
        """
        topics = {name: info for name, info in self.topics.items() if name not in set(drop)}
        for topic in response.topics:
            if topic.name is not None and not topic.error_code and (keep is None or topic.name in keep):
                topics[topic.name] = topic_info(topic, topics.get(topic.name))
        brokers = {node.node_id: BrokerNode(node.node_id, node.host, node.port, node.rack) for node in response.brokers}
        return ClusterSnapshot(
            brokers=brokers,
            controller_id=response.controller_id,
            # It's null before version 2. A response without an id must not erase the known one.
            cluster_id=response.cluster_id or self.cluster_id,
            topics=topics,
            topic_names={info.topic_id: name for name, info in topics.items() if info.topic_id != ZERO_UUID},
            generation=self.generation + 1,
        )


def topic_info(topic: MetadataResponseTopic, known: TopicInfo | None = None) -> TopicInfo:
    """Return a topic of a Metadata response, with whatever is newer in ``known``.

    The response must have been checked (``answers``).

    Within one topic id, leader epochs and the number of partitions only grow, so a higher epoch is newer (KIP-320). A
    recreated topic has a different id, and its epochs start at 0.
    """
    assert topic.name is not None, "topics are requested by name"
    listed = {partition.partition_index: _partition_info(partition) for partition in topic.partitions}
    omissions = 0
    if known is not None and known.topic_id == topic.topic_id:
        for index, before in enumerate(known.partitions):
            if index in listed:
                listed[index] = _newer(before, listed[index])
            elif topic.topic_id != ZERO_UUID or known.omissions < MAX_OMISSIONS:
                listed[index] = before
                omissions = known.omissions + 1
    # Fill gaps in the indexes with partitions that have no leader: the position in the tuple must be the partition's
    # index.
    partitions = tuple(listed.get(index, _UNLISTED) for index in range(max(listed, default=-1) + 1))
    return TopicInfo(topic.name, topic.topic_id, partitions, topic.is_internal, omissions)


_UNLISTED = PartitionInfo()


def _newer(before: PartitionInfo, found: PartitionInfo) -> PartitionInfo:
    """Return whichever is newer: the known partition, or the one in a response."""
    if found.leader_epoch < 0:
        # If the epoch is unknown (before version 7), the response is taken as newer. But some brokers don't send an
        # epoch while there is no leader (Redpanda). Keep the known one, or an outdated response could win later.
        return found if found.leader >= 0 else found._replace(leader_epoch=before.leader_epoch)
    if found.leader_epoch < before.leader_epoch and before.rewinds < MAX_REWINDS:
        return before._replace(rewinds=before.rewinds + 1)
    return found


def _partition_info(partition: MetadataResponsePartition) -> PartitionInfo:
    # This is the only error code that invalidates the leader. REPLICA_NOT_AVAILABLE, which old brokers send, is about
    # replicas.
    leaderless = partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    return PartitionInfo(
        NO_LEADER if leaderless else partition.leader_id,
        partition.leader_epoch,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
    )


def is_topic_name(name: str) -> bool:
    """Whether a broker accepts a topic's name."""
    return _TOPIC_NAME.fullmatch(name) is not None and name not in (".", "..")


def is_address(node_id: int, host: str, port: int) -> bool:
    """Whether a broker can have this id and advertised address."""
    return node_id >= 0 and 0 < len(host) <= LONGEST_HOST and 0 < port <= MAX_PORT
