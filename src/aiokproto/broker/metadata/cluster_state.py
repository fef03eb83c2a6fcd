"""What all nodes of the cluster share: nodes, topics, leaders. Its only writer; no asyncio.

There is one copy of the data, and any node could serve it, but each serves only the partitions it leads, so that
clients have to find the leader and to follow it, as with a real cluster.
"""

from __future__ import annotations

import base64
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from aiokproto.broker.clock import Clock, SystemClock
from aiokproto.broker.config.dynamic_options import ClusterOptions, NodeOptions
from aiokproto.broker.config.options import BrokerOptions, TopicOptions
from aiokproto.broker.log import Log, LogCheckpoint, checkpoints, partition_metadata
from aiokproto.broker.log.log import DELETED_DIRECTORY
from aiokproto.broker.metadata.metadata_log import MetadataLog
from aiokproto.broker.metadata.topics import (
    NO_LEADER,
    OFFSETS_TOPIC,
    Partition,
    Topic,
    check_topic_name,
    partition_directory,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.runtime import current

MAX_PARTITIONS = 10_000
"""Most partitions that one request may add: each costs memory here, and a directory when it is written to."""

_PRODUCER_ID_BLOCK = 1000

_CLUSTER, _TOPIC, _BROKER = "cluster", "topic", "broker"
"""Kinds of metadata."""

_CHECKPOINTS = (checkpoints.LOG_START, checkpoints.RECOVERY_POINT, checkpoints.CLEANED)


@dataclass
class Node:
    """A broker of the cluster. The port is 0 until it was started for the first time, and kept from then on."""

    node_id: int
    host: str
    port: int
    alive: bool = False


class ClusterState:
    """The shared state.

    Attributes:
        root: The data directory.
        options: The broker's options.
        nodes: The nodes by id.
        topics: The topics by name.
        cluster_id: The cluster's id.
        metadata: What is kept besides the logs.
        clock: What time it is for the brokers.
        on_leader_change: Called with a partition whose leader changed.
        on_delete: Called with a topic that was deleted.
        on_roll: Called with a log that has begun another segment.
    """

    def __init__(self, root: Path, nodes: dict[int, Node], options: BrokerOptions, clock: Clock | None = None) -> None:
        """Begin, or go on from what is in ``root``. Nodes may come to ``nodes`` and go from it later."""
        self.root = root
        self.options = options
        self.clock: Clock = clock or SystemClock()
        self.nodes = nodes
        self.topics: dict[str, Topic] = {}
        # As Kafka does, none that begins with a dash: command lines would take it for an option.
        self.cluster_id = base64.urlsafe_b64encode(bytes([0]) + current().uuid().bytes[1:]).decode().rstrip("=")
        self.on_leader_change: Callable[[Partition], None] = lambda partition: None
        self.on_delete: Callable[[Topic], None] = lambda topic: None
        self.on_roll: Callable[[Log], None] = lambda log: None
        self._by_id: dict[bytes, Topic] = {}
        self._next_producer_id = 0
        self._saved_producer_id = 0
        self._by_metric_name: dict[str, Topic] = {}
        self._checkpoints = {name: checkpoints.read(root / name) for name in _CHECKPOINTS}
        self._checkpointed = {key for known in self._checkpoints.values() for key in known}
        self._closed = checkpoints.take_clean_shutdown(root)
        for leftover in root.glob(f"*{DELETED_DIRECTORY}"):
            shutil.rmtree(leftover, ignore_errors=True)
        self.metadata = MetadataLog(root)
        self._load()
        # What is opened from now on was not there before, whatever directories there are.
        self._closed = False

    # ---- questions

    @property
    def alive(self) -> list[Node]:
        """The nodes that are up."""
        return [node for node in self.nodes.values() if node.alive]

    @property
    def controller_id(self) -> int:
        """The node that acts as controller: the first that is up."""
        return self.alive[0].node_id if self.alive else NO_LEADER

    def partitions(self) -> Iterator[Partition]:
        """Every partition of every topic."""
        for topic in self.topics.values():
            yield from topic.partitions

    def logs(self) -> Iterator[Log]:
        """Every log that is open."""
        return (partition.opened for partition in self.partitions() if partition.opened is not None)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """The topic with that id."""
        return self._by_id.get(topic_id)

    def find_partition(self, topic: str, index: int) -> Partition | None:
        """A partition, or None."""
        found = self.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.partitions[index]

    def partition(self, topic: str, index: int) -> Partition:
        """A partition.

        Raises:
            BrokerError: UNKNOWN_TOPIC_OR_PARTITION.
        """
        found = self.find_partition(topic, index)
        if found is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail=f"there is no partition {topic}-{index}")
        return found

    def led_partition(self, topic: str, index: int, node_id: int, leader_epoch: int = -1) -> Partition:
        """A partition that this node leads, in the epoch which the client believes it is in (-1: it did not say).

        Raises:
            BrokerError: The partition is unknown or led by another node, or the client's epoch is not the current one.
        """
        partition = self.partition(topic, index)
        # Before the leader: a client that is behind must refresh, one that is ahead must wait for this broker.
        if 0 <= leader_epoch < partition.leader_epoch:
            raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH)
        if leader_epoch > partition.leader_epoch:
            raise BrokerError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if partition.leader != node_id:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition

    def check_in_sync(self, partition: Partition) -> None:
        """Whether as many replicas are in sync as ``min.insync.replicas`` asks for.

        Raises:
            BrokerError: NOT_ENOUGH_REPLICAS.
        """
        wanted = self.topics[partition.topic].options.number("min.insync.replicas")
        in_sync = sum(self.nodes[node_id].alive for node_id in partition.isr)
        if in_sync < wanted:
            raise BrokerError(
                ErrorCode.NOT_ENOUGH_REPLICAS, detail=f"{in_sync} replicas are in sync, min.insync.replicas is {wanted}"
            )

    def new_producer_id(self) -> int:
        """A producer id that was never given before."""
        producer_id = self._next_producer_id
        self._next_producer_id += 1
        if producer_id >= self._saved_producer_id:
            # Reserved in blocks: ids may be lost in a crash, but none is given twice.
            self._saved_producer_id = producer_id + _PRODUCER_ID_BLOCK
            self.metadata.put(_CLUSTER, "next_producer_id", self._saved_producer_id)
        return producer_id

    # ---- topics

    def create_topic(
        self,
        name: str,
        partitions: int = -1,
        replication: int = -1,
        configs: Mapping[str, str | None] | None = None,
        assignment: Mapping[int, Sequence[int]] | None = None,
        *,
        dry_run: bool = False,
    ) -> Topic:
        """Create a topic.

        Args:
            name: Its name.
            partitions: Number of partitions; -1 for the broker's default.
            replication: Replicas of each; -1 for the broker's default.
            configs: Its options.
            assignment: The replicas of each partition, instead of both numbers; the first of each leads.
            dry_run: Only check, and return what would be created.

        Raises:
            BrokerError: It cannot be created; the code says why.
        """
        check_topic_name(name)
        if name in self.topics:
            raise BrokerError(ErrorCode.TOPIC_ALREADY_EXISTS, detail=f"topic {name!r} already exists")
        clash = self._by_metric_name.get(_metric_name(name))
        if clash is not None:
            raise BrokerError(ErrorCode.INVALID_TOPIC_EXCEPTION, detail=f"topic {name!r} collides with {clash.name!r}")
        if assignment:
            replicas = self._given_assignment(assignment)
        else:
            count = self.options.number("num.partitions") if partitions == -1 else partitions
            factor = self.options.number("default.replication.factor") if replication == -1 else replication
            self._check_counts(count, factor)
            replicas = [self._place_replicas(index, factor) for index in range(count)]
        topic = Topic(
            name,
            self._topic_id_on_disk(name, len(replicas)) or current().uuid().bytes,
            TopicOptions(configs or {}, self.options),
        )
        for index, nodes in enumerate(replicas):
            self._add_partition(topic, index, nodes)
        if not dry_run:
            self._add_topic(topic)
            self._save_topics([topic])
        return topic

    def _topic_id_on_disk(self, name: str, partitions: int) -> bytes | None:
        """The topic that partitions' directories which are there already are of: they were put there to be served."""
        directories = [partition_directory(self.root, name, index) for index in range(partitions)]
        found = {topic_id for directory in directories if (topic_id := partition_metadata.read(directory)) is not None}
        taken = found & self._by_id.keys()
        if len(found) > 1 or taken:
            others = f", also of {self._by_id[taken.pop()].name!r}" if taken else ""
            raise BrokerError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                detail=f"there are directories of partitions of {name!r}, of {len(found)} topic ids{others}",
            )
        return next(iter(found), None)

    def offsets_topic(self) -> Topic:
        """The topic that holds groups and their offsets; created when first asked for."""
        topic = self.topics.get(OFFSETS_TOPIC)
        if topic is None:
            factor = min(self.options.number("offsets.topic.replication.factor"), len(self.nodes))
            configs = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
            topic = self.create_topic(
                OFFSETS_TOPIC, self.options.number("offsets.topic.num.partitions"), factor, configs
            )
        return topic

    def add_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None = None, *, dry_run: bool = False
    ) -> None:
        """Grow a topic to ``count`` partitions.

        Raises:
            BrokerError: It cannot be done; the code says why.
        """
        topic = self.topics.get(name)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail=f"there is no topic {name!r}")
        have = len(topic.partitions)
        if count <= have or count - have > MAX_PARTITIONS:
            raise BrokerError(ErrorCode.INVALID_PARTITIONS, detail=f"{name!r} has {have} partitions, {count} asked for")
        if assignments is not None and len(assignments) != count - have:
            raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail="one assignment for each new partition")
        for nodes in assignments or ():
            self._check_replicas(nodes)
        for index in range(have, count):
            found = partition_metadata.read(partition_directory(self.root, name, index))
            if found not in (None, topic.topic_id):
                detail = f"there is a directory of {name}-{index}, of another topic"
                raise BrokerError(ErrorCode.INCONSISTENT_TOPIC_ID, detail=detail)
        if dry_run:
            return
        for index in range(have, count):
            nodes = assignments[index - have] if assignments else self._place_replicas(index, topic.replication)
            self._add_partition(topic, index, nodes)
        self._save_topics([topic])

    def delete_topic(self, topic: Topic) -> None:
        """Delete a topic and its data."""
        if not self.options.value("delete.topic.enable"):
            raise BrokerError(ErrorCode.TOPIC_DELETION_DISABLED)
        del self.topics[topic.name], self._by_id[topic.topic_id], self._by_metric_name[_metric_name(topic.name)]
        # Before the topic: after a crash in between, another one of that name must not find these.
        for partition in topic.partitions:
            partition.log.delete()
        self.metadata.put(_TOPIC, topic.name, None)
        if any((topic.name, partition.index) in self._checkpointed for partition in topic.partitions):
            self.checkpoint()
        for partition in topic.partitions:
            partition.wake()
        self.on_delete(topic)

    def configure_topic(self, topic: Topic, configs: Mapping[str, str | None]) -> None:
        """Replace a topic's own options. Raises :class:`BrokerError` INVALID_CONFIG."""
        topic.configure(TopicOptions(configs, self.options))
        self._save_topics([topic])

    # ---- options of brokers

    def dynamic_options(self, name: str) -> NodeOptions:
        """What was changed for one node, by its id as text, or for all, by the empty name."""
        kind = NodeOptions if name else ClusterOptions
        return kind(self.metadata.get(_BROKER).get(name, {}), self.options)

    def set_dynamic_options(self, name: str, options: NodeOptions) -> None:
        """Replace what was changed for one node, or for all. Every topic has the new defaults at once."""
        self.metadata.put(_BROKER, name, options.overrides or None)
        if isinstance(options, ClusterOptions):
            self.options.dynamic = options.changes()
        for topic in self.topics.values():
            topic.configure(topic.options)

    # ---- leaders

    def nodes_up(self, node_ids: Collection[int]) -> None:
        """These nodes are up: they are in sync at once, and lead what nobody leads."""
        for node_id in node_ids:
            self.nodes[node_id].alive = True
        for partition in self.partitions():
            back = [node_id for node_id in partition.replicas if node_id in node_ids]
            partition.isr += [node_id for node_id in back if node_id not in partition.isr]
            if back and partition.leader == NO_LEADER:
                self._change_leader(partition, back[0])
        self._save_topics(self.topics.values())

    def node_down(self, node_id: int) -> None:
        """A node is gone: its partitions go to replicas that are up."""
        self.nodes[node_id].alive = False
        for partition in self.partitions():
            # The last replica in sync stays so: it is the one that has to come back.
            if node_id in partition.isr and len(partition.isr) > 1:
                partition.isr.remove(node_id)
            if partition.leader == node_id:
                self._change_leader(partition, next(iter(self._electable(partition)), NO_LEADER))
        self._save_topics(self.topics.values())

    def remove_node(self, node_id: int) -> None:
        """Forget a node that is down; others get the replicas that it had."""
        del self.nodes[node_id]
        for partition in self.partitions():
            if node_id not in partition.replicas:
                continue
            free = [each for each in self.nodes if each not in partition.replicas]
            heir = free[partition.index % len(free)] if free else None
            replicas = [heir if each == node_id else each for each in partition.replicas]
            partition.replicas = [each for each in replicas if each is not None]
            partition.isr = [each for each in partition.replicas if self.nodes[each].alive] or partition.replicas[:]
            if partition.leader == NO_LEADER:
                self._change_leader(partition, next(iter(self._electable(partition)), NO_LEADER))
        self._save_topics(self.topics.values())

    def move_leader(self, topic: str, index: int, to_node: int | None = None) -> int:
        """Have another replica lead a partition; a node that has no replica gets one. Returns the new leader's id.

        Raises:
            BrokerError: UNKNOWN_TOPIC_OR_PARTITION; ELIGIBLE_LEADERS_NOT_AVAILABLE, if no other node can lead.
        """
        partition = self.partition(topic, index)
        if to_node is None:
            candidates = [node_id for node_id in self._electable(partition) if node_id != partition.leader]
            candidates += [node.node_id for node in self.alive if node.node_id != partition.leader]
            to_node = next(iter(candidates), NO_LEADER)
        if to_node not in self.nodes or not self.nodes[to_node].alive:
            raise BrokerError(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, detail=f"no other node can lead {topic}-{index}"
            )
        if to_node not in partition.replicas:
            partition.replicas.append(to_node)
        if to_node not in partition.isr:
            partition.isr.append(to_node)
        self._change_leader(partition, to_node)
        self._save_topics([self.topics[topic]])
        return to_node

    def elect(self, topic: str, index: int, *, unclean: bool = False) -> None:
        """Have the preferred replica lead a partition; or if ``unclean``, any that is up lead one that has no leader.

        Raises:
            BrokerError: UNKNOWN_TOPIC_OR_PARTITION, ELECTION_NOT_NEEDED, or that no such replica can lead.
        """
        partition = self.partition(topic, index)
        preferred = partition.replicas[0]
        if partition.leader != NO_LEADER if unclean else partition.leader == preferred:
            raise BrokerError(ErrorCode.ELECTION_NOT_NEEDED)
        if unclean:
            able = [node_id for node_id in partition.replicas if self.nodes[node_id].alive]
        else:
            able = [node_id for node_id in self._electable(partition) if node_id == preferred]
        if not able:
            none = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE if unclean else ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            raise BrokerError(none)
        if able[0] not in partition.isr:
            partition.isr = [able[0]]
        self._change_leader(partition, able[0])
        self._save_topics([self.topics[topic]])

    def reassign(self, topic: str, index: int, replicas: Sequence[int], *, may_resize: bool = True) -> None:
        """Have a partition on other nodes, which is done at once: they share the data.

        Raises:
            BrokerError: UNKNOWN_TOPIC_OR_PARTITION; INVALID_REPLICA_ASSIGNMENT, also if none of the nodes is up;
                INVALID_REPLICATION_FACTOR, if there are more or fewer than before and that is not wanted.
        """
        partition = self.partition(topic, index)
        self._check_replicas(replicas)
        if not may_resize and len(replicas) != len(partition.replicas):
            raise BrokerError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                detail=f"{topic}-{index} has {len(partition.replicas)} replicas, {len(replicas)} asked for",
            )
        in_sync = [node_id for node_id in replicas if self.nodes[node_id].alive]
        if not in_sync:
            raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail=f"none of {list(replicas)} is up")
        partition.replicas, partition.isr = list(replicas), in_sync
        if partition.leader not in in_sync:
            self._change_leader(partition, in_sync[0])
        self._save_topics([self.topics[topic]])

    def _electable(self, partition: Partition) -> list[int]:
        return [node_id for node_id in partition.replicas if node_id in partition.isr and self.nodes[node_id].alive]

    def _change_leader(self, partition: Partition, node_id: int) -> None:
        partition.change_leader(node_id)
        self.on_leader_change(partition)

    # ---- helpers

    def _check_counts(self, partitions: int, replication: int) -> None:
        if not 0 < partitions <= MAX_PARTITIONS:
            raise BrokerError(ErrorCode.INVALID_PARTITIONS, detail=f"{partitions} partitions")
        if not 0 < replication <= len(self.nodes):
            raise BrokerError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                detail=f"replication factor {replication} with {len(self.nodes)} brokers",
            )

    def _given_assignment(self, assignment: Mapping[int, Sequence[int]]) -> list[Sequence[int]]:
        replicas = [assignment[index] for index in sorted(assignment)]
        if sorted(assignment) != list(range(len(assignment))) or len({len(nodes) for nodes in replicas}) != 1:
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail="partitions must count from 0, with equally many replicas"
            )
        self._check_counts(len(replicas), max(len(replicas[0]), 1))
        for nodes in replicas:
            self._check_replicas(nodes)
        return replicas

    def _check_replicas(self, nodes: Sequence[int]) -> None:
        if not nodes or len(set(nodes)) != len(nodes) or not set(nodes) <= set(self.nodes):
            raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail=f"replicas {list(nodes)}")

    def _place_replicas(self, index: int, replication: int) -> list[int]:
        ids = list(self.nodes)
        return [ids[(index + step) % len(ids)] for step in range(replication)]

    def _add_partition(self, topic: Topic, index: int, nodes: Sequence[int], leader_epoch: int = 0) -> None:
        in_sync = [node_id for node_id in nodes if self.nodes[node_id].alive]
        start, recovered, cleaned = (self._checkpoints[name].pop((topic.name, index), 0) for name in _CHECKPOINTS)
        checkpoint = LogCheckpoint(start, recovered, cleaned, self._closed)
        partition = Partition(
            topic.name,
            index,
            list(nodes),
            in_sync or list(nodes),
            in_sync[0] if in_sync else NO_LEADER,
            leader_epoch,
            lambda: self._open_log(topic, index, checkpoint),
            checkpoint,
        )
        topic.partitions.append(partition)
        # What was closed in good order can wait until it is needed.
        if not checkpoint.clean_shutdown:
            partition.open()

    def _add_topic(self, topic: Topic) -> None:
        self.topics[topic.name] = self._by_id[topic.topic_id] = self._by_metric_name[_metric_name(topic.name)] = topic

    # ---- on disk

    def _save_topics(self, topics: Iterable[Topic]) -> None:
        self.metadata.put_all((_TOPIC, topic.name, _as_json(topic)) for topic in topics)

    def _load(self) -> None:
        cluster = self.metadata.get(_CLUSTER)
        self.cluster_id = cluster.get("cluster_id", self.cluster_id)
        self.metadata.put(_CLUSTER, "cluster_id", self.cluster_id)
        self._next_producer_id = self._saved_producer_id = cluster.get("next_producer_id", 0)
        self.options.dynamic = {}
        self.options.dynamic = ClusterOptions(self.metadata.get(_BROKER).get("", {}), self.options).changes()
        for name, saved in self.metadata.get(_TOPIC).items():
            topic = Topic(name, bytes.fromhex(saved["id"]), TopicOptions(saved["configs"], self.options))
            for index, each in enumerate(saved["partitions"]):
                replicas = [node_id for node_id in each["replicas"] if node_id in self.nodes] or [
                    next(iter(self.nodes))
                ]
                self._add_partition(topic, index, replicas, each["leader_epoch"])
            self._add_topic(topic)

    def _open_log(self, topic: Topic, index: int, checkpoint: LogCheckpoint) -> Log:
        directory = partition_directory(self.root, topic.name, index)
        log = Log(directory, topic.log_config(), self.clock.wall(), checkpoint, topic.topic_id)
        log.on_roll = lambda log: self.on_roll(log)
        return log

    def checkpoint(self) -> None:
        """Write down how far logs are on disk and compacted, and where they begin."""
        logs = {(each.topic, each.index): each.checkpoint for each in self.partitions()}
        offsets = {
            checkpoints.LOG_START: {key: log.start_offset for key, log in logs.items() if log.start_offset},
            checkpoints.RECOVERY_POINT: {key: log.recovery_point for key, log in logs.items() if log.recovery_point},
            checkpoints.CLEANED: {key: log.cleaned_to for key, log in logs.items() if log.cleaned_to},
        }
        for name, known in offsets.items():
            checkpoints.write(self.root / name, known)
        self._checkpointed = {key for known in offsets.values() for key in known}

    def close(self) -> None:
        """Flush and close every log."""
        for log in self.logs():
            log.close()
        self.checkpoint()
        checkpoints.mark_clean_shutdown(self.root)

    def close_handlers(self) -> None:
        """Close every log, of which nothing has to stay."""
        for log in self.logs():
            log.close_handlers()


def _as_json(topic: Topic) -> dict[str, object]:
    return {
        "id": topic.topic_id.hex(),
        "configs": topic.options.overrides,
        "partitions": [
            {"replicas": partition.replicas, "leader_epoch": partition.leader_epoch} for partition in topic.partitions
        ],
    }


def _metric_name(topic: str) -> str:
    """Kafka keeps topics apart by their metrics, where dots and underscores are the same."""
    return topic.replace(".", "_")
