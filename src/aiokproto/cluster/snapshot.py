"""The cluster metadata: immutable, and how an answer to Metadata makes the next one (pure)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from aiokproto.codec.messages.metadata import MetadataResponse, MetadataResponsePartition, MetadataResponseTopic
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import DecodeError

NO_LEADER = -1
MAX_PARTITIONS = 1_000_000
"""More than any cluster can hold: a partition index beyond is a broken answer, not a reason to allocate."""


class BrokerNode(NamedTuple):
    """A broker and where it listens. A negative id is that of a bootstrap address, whose broker is not known yet."""

    id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def address(self) -> str:
        """``host:port``, with brackets for IPv6."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        return self.address if self.id < 0 else f"broker {self.id} ({self.address})"


class PartitionInfo(NamedTuple):
    """A partition: its leader, in which epoch (-1: unknown), its replicas, and those in sync.

    ``leader`` is -1 while there is none; prefer :meth:`ClusterSnapshot.leader`.
    """

    leader: int = NO_LEADER
    leader_epoch: int = -1
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()


class TopicInfo(NamedTuple):
    """A topic; ``partitions`` are in order of their index. ``topic_id`` is 16 zero bytes with brokers before 2.8."""

    name: str
    topic_id: bytes
    partitions: tuple[PartitionInfo, ...]
    is_internal: bool = False


@dataclass(frozen=True)
class ClusterSnapshot:
    """The cluster at one moment. ``topics`` holds only those somebody has asked for.

    ``generation`` grows with every answer from the cluster, also with one that changes nothing.
    """

    brokers: Mapping[int, BrokerNode] = field(default_factory=dict)
    controller_id: int = -1
    cluster_id: str | None = None
    topics: Mapping[str, TopicInfo] = field(default_factory=dict)
    topic_names: Mapping[bytes, str] = field(default_factory=dict)
    generation: int = 0

    def partition(self, topic: str, partition: int) -> PartitionInfo | None:
        """What is known of a partition; None if it is not known to exist."""
        info = self.topics.get(topic)
        return info.partitions[partition] if info and 0 <= partition < len(info.partitions) else None

    def leader(self, topic: str, partition: int) -> int | None:
        """The node id of the partition's leader; None if there is none, or the partition is not known."""
        info = self.partition(topic, partition)
        return info.leader if info and info.leader >= 0 else None

    def leader_epoch(self, topic: str, partition: int) -> int:
        """The epoch of the partition's leader; -1 if not known."""
        info = self.partition(topic, partition)
        return info.leader_epoch if info else -1

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of the topic with this id; None if it is not known."""
        return self.topic_names.get(topic_id)

    def leaderless(self, topics: Collection[str]) -> list[tuple[str, int]]:
        """The partitions of these topics without a leader."""
        return [
            (name, index)
            for name in topics
            if name in self.topics
            for index, info in enumerate(self.topics[name].partitions)
            if info.leader < 0
        ]

    def recreated(self, topic_ids: Mapping[str, bytes]) -> list[str]:
        """The topics that were deleted, and created again under their name, since they had these ids.

        An offset of the former topic means nothing in the new one. Brokers before 2.8 do not name ids: there it cannot
        be seen.
        """
        return [
            name
            for name, before in topic_ids.items()
            if name in self.topics and ZERO_UUID not in (before, now := self.topics[name].topic_id) and now != before
        ]

    def without(self, topics: Collection[str]) -> ClusterSnapshot:
        """The same without some topics; itself where it has none of them."""
        left = {name: info for name, info in self.topics.items() if name not in topics}
        if len(left) == len(self.topics):
            return self
        names = {topic_id: name for topic_id, name in self.topic_names.items() if name in left}
        return replace(self, topics=left, topic_names=names, generation=self.generation + 1)

    def with_broker(self, node: BrokerNode) -> ClusterSnapshot:
        """The same with a broker more, or at another address."""
        return replace(self, brokers={**self.brokers, node.id: node}, generation=self.generation + 1)

    def with_leader(self, topic: str, partition: int, leader: int, leader_epoch: int) -> ClusterSnapshot:
        """The same with another leader of a partition; itself where the hint is no news (KIP-951)."""
        known = self.partition(topic, partition)
        if known is None or leader_epoch <= known.leader_epoch or leader not in self.brokers:
            return self
        info = self.topics[topic]
        partitions = list(info.partitions)
        partitions[partition] = known._replace(leader=leader, leader_epoch=leader_epoch)
        topics = {**self.topics, topic: info._replace(partitions=tuple(partitions))}
        return replace(self, topics=topics, generation=self.generation + 1)

    def updated(
        self, answer: MetadataResponse, keep: Collection[str] | None = None, drop: Iterable[str] = ()
    ) -> ClusterSnapshot:
        """The metadata after an answer.

        Topics that the answer does not have, or has with an error, stay as they were: a broker that has just started
        may know less than we do. ``drop`` names those that are really gone. Only topics in ``keep`` are taken in
        (None: all).
        """
        topics = {name: info for name, info in self.topics.items() if name not in set(drop)}
        for topic in answer.topics:
            if topic.name is not None and not topic.error_code and (keep is None or topic.name in keep):
                topics[topic.name] = topic_info(topic, topics.get(topic.name))
        brokers = {node.node_id: BrokerNode(node.node_id, node.host, node.port, node.rack) for node in answer.brokers}
        return ClusterSnapshot(
            brokers=brokers,
            controller_id=answer.controller_id,
            cluster_id=answer.cluster_id or self.cluster_id,
            topics=topics,
            topic_names={info.topic_id: name for name, info in topics.items() if info.topic_id != ZERO_UUID},
            generation=self.generation + 1,
        )


def topic_info(topic: MetadataResponseTopic, known: TopicInfo | None = None) -> TopicInfo:
    """A topic as answered, save partitions of which ``known`` has a later leader epoch.

    Brokers learn of a leader change at different times, so an answer can be older than what we know. Within one life
    of a topic (one topic id) the epoch only grows, and the higher one is right (KIP-320); a topic created again
    under the same name starts at 0.
    """
    assert topic.name is not None, "topics are asked for by name"
    size = max((partition.partition_index for partition in topic.partitions), default=-1) + 1
    if size > MAX_PARTITIONS or any(partition.partition_index < 0 for partition in topic.partitions):
        raise DecodeError(f"MetadataResponse: topic {topic.name!r} has a partition of impossible index")
    partitions = [PartitionInfo()] * size
    for partition in topic.partitions:
        partitions[partition.partition_index] = _partition_info(partition)
    if known is not None and known.topic_id == topic.topic_id:
        for index, before in enumerate(known.partitions[:size]):
            if -1 < partitions[index].leader_epoch < before.leader_epoch:
                partitions[index] = before
    return TopicInfo(topic.name, topic.topic_id, tuple(partitions), topic.is_internal)


def _partition_info(partition: MetadataResponsePartition) -> PartitionInfo:
    # With this code alone is the leader that is named not to be used; others are about replicas (KIP-101 era brokers).
    leaderless = partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
    return PartitionInfo(
        NO_LEADER if leaderless else partition.leader_id,
        partition.leader_epoch,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
    )
