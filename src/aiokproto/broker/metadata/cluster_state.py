"""The cluster's metadata in memory, and its only writer: nodes, topics, leaders, dynamic options. No asyncio."""

from __future__ import annotations

import base64
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from aiokproto.broker.clock import Clock, SystemClock
from aiokproto.broker.config.options import BrokerOptions, ClusterOptions, GroupOptions, NodeOptions, TopicOptions
from aiokproto.broker.log import Log, LogCheckpoint, checkpoints, partition_metadata
from aiokproto.broker.log.log import DELETED_DIRECTORY
from aiokproto.broker.metadata.internal_topics import internal_topic_settings
from aiokproto.broker.metadata.metadata_log import MetadataLog
from aiokproto.broker.metadata.topics import (
    NO_LEADER,
    Partition,
    Topic,
    check_topic_name,
    partition_directory,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.runtime import current
from aiokproto.texts import counted

if TYPE_CHECKING:
    from aiokproto.broker.cluster_runtime import ClusterRuntime
    from aiokproto.broker.metadata.log_manager import LogManager

MAX_PARTITIONS = 10_000
"""Maximum number of new partitions per topic, and per CreateTopics or CreatePartitions request. Each partition takes
memory and, once it's written to, a directory."""

_PRODUCER_ID_BLOCK = 1000

_CLUSTER, _TOPIC, _BROKER, _GROUP = "cluster", "topic", "broker", "group"
"""Kinds of entries in the metadata log."""

_CHECKPOINTS = (checkpoints.LOG_START, checkpoints.RECOVERY_POINT, checkpoints.CLEANED)


def check_new_partitions(counts: Iterable[int]) -> None:
    """Check how many partitions a request adds in total, as Kafka does. A few bytes of a request are enough to create a
    topic.

    Args:
        counts: How many partitions are added to each topic. Topics above the limit don't count: they're refused
            individually.

    Raises:
        BrokerError: POLICY_VIOLATION.
    """
    total = sum(count for count in counts if count <= MAX_PARTITIONS)
    if total > MAX_PARTITIONS:
        detail = f"the request has {total} new partitions, and the limit is {MAX_PARTITIONS}"
        raise BrokerError(ErrorCode.POLICY_VIOLATION, detail=detail)


@dataclass
class Node:
    """A broker.

    Attributes:
        node_id: The node's id.
        host: The host that the node advertises.
        port: The port. If a free port is to be picked, this is 0 until the first start, and doesn't change after that.
        alive: Whether the node is running.
        rack: The rack, if any.
        listens: The address that the node listens on, or None for ``host``.
    """

    node_id: int
    host: str
    port: int
    alive: bool = False
    rack: str | None = None
    listens: str | None = None


class ClusterState:
    """The metadata of the cluster.

    Attributes:
        root: The data directory.
        options: The brokers' options.
        nodes: The nodes by id.
        topics: The topics by name.
        cluster_id: The cluster's id.
        metadata: The metadata log.
        clock: The brokers' clock.
        runtime: The running cluster, which notifies its coordinators of new leaders and deleted topics. Set once the
            coordinators exist.
        log_manager: Flushes a log's segments after the log has rolled a new one. None before the cluster is running, or
            if the logs are temporary.
    """

    def __init__(self, root: Path, nodes: dict[int, Node], options: BrokerOptions, clock: Clock | None = None) -> None:
        """Load the metadata in ``root``, or start empty. ``nodes`` is shared with the caller, who adds and removes
        nodes."""
        self.root = root
        self.options = options
        self.clock: Clock = clock or SystemClock()
        self.nodes = nodes
        self.topics: dict[str, Topic] = {}
        # Kafka's ids don't start with a dash, which command line tools would parse as an option.
        self.cluster_id = base64.urlsafe_b64encode(bytes([0]) + current().uuid().bytes[1:]).decode().rstrip("=")
        self.runtime: ClusterRuntime | None = None
        self.log_manager: LogManager | None = None
        self._by_id: dict[bytes, Topic] = {}
        self._next_producer_id = 0
        self._saved_producer_id = 0
        self._by_metric_name: dict[str, Topic] = {}
        self._checkpoints = {name: checkpoints.read(root / name) for name in _CHECKPOINTS}
        self._checkpointed = {key for known in self._checkpoints.values() for key in known}
        self._clean_shutdown = checkpoints.take_clean_shutdown(root)
        # These are left over from a crash between renaming and removing a deleted log.
        for leftover in root.glob(f"*{DELETED_DIRECTORY}"):
            shutil.rmtree(leftover, ignore_errors=True)
        self.metadata = MetadataLog(root)
        self._load()
        # The clean shutdown covers only the logs that existed then. The directories of topics created from now on may
        # have been copied here, so they're recovered.
        self._clean_shutdown = False

    # ---- queries

    @property
    def alive(self) -> list[Node]:
        """The running nodes."""
        return [node for node in self.nodes.values() if node.alive]

    @property
    def controller_id(self) -> int:
        """The id of the controller, which is the first running node, or -1 if no node is running."""
        return self.alive[0].node_id if self.alive else NO_LEADER

    def partitions(self) -> Iterator[Partition]:
        """Yield every partition of every topic."""
        for topic in self.topics.values():
            yield from topic.partitions

    def logs(self) -> Iterator[Log]:
        """Yield every open log."""
        return (partition.opened for partition in self.partitions() if partition.opened is not None)

    def topic_by_id(self, topic_id: bytes) -> Topic | None:
        """Return the topic with an id, or None."""
        return self._by_id.get(topic_id)

    def find_partition(self, topic: str, index: int) -> Partition | None:
        """Return a partition, or None."""
        found = self.topics.get(topic)
        if found is None or not 0 <= index < len(found.partitions):
            return None
        return found.partitions[index]

    def partition(self, topic: str, index: int) -> Partition:
        """Return a partition.

        Raises:
            BrokerError: UNKNOWN_TOPIC_OR_PARTITION.
        """
        found = self.find_partition(topic, index)
        if found is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail=f"partition {topic}-{index} does not exist")
        return found

    def led_partition(self, topic: str, index: int, node_id: int, leader_epoch: int = -1) -> Partition:
        """Return a partition that a node leads. ``leader_epoch`` is the client's current leader epoch, or -1 if it sent
        none.

        Raises:
            BrokerError: UNKNOWN_TOPIC_OR_PARTITION; NOT_LEADER_OR_FOLLOWER; FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH
                if the epoch is older or newer than the partition's (KIP-320).
        """
        partition = self.partition(topic, index)
        # As in Kafka, check the epoch before the leader: a client with an older epoch must refresh its metadata, and a
        # client with a newer epoch must wait until this broker has caught up.
        if 0 <= leader_epoch < partition.leader_epoch:
            raise BrokerError(ErrorCode.FENCED_LEADER_EPOCH)
        if leader_epoch > partition.leader_epoch:
            raise BrokerError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if partition.leader != node_id:
            raise BrokerError(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return partition

    def readable_partition(self, topic: str, index: int, node_id: int, leader_epoch: int) -> Partition:
        """Return a partition that a node leads or replicates, for consumers that may read from followers (KIP-392).

        Followers serve consumers only if the cluster has racks. (In Kafka, followers always serve consumers that know
        them.) Raises the same errors as :meth:`led_partition`.
        """
        partition = self.partition(topic, index)
        if self.nodes[node_id].rack is not None and partition.leader >= 0 and node_id in partition.isr:
            return self.led_partition(topic, index, partition.leader, leader_epoch)
        return self.led_partition(topic, index, node_id, leader_epoch)

    def nearest_replica(self, partition: Partition, rack: str) -> int:
        """Return the follower that consumers in a rack should read from (RackAwareReplicaSelector), or -1 for the
        leader."""
        nodes = self.nodes
        in_rack = [node_id for node_id in partition.isr if nodes[node_id].alive and nodes[node_id].rack == rack]
        # All replicas share one log, so no replica lags, and the first one is as good as any.
        return -1 if not in_rack or partition.leader in in_rack else in_rack[0]

    def check_in_sync(self, partition: Partition) -> None:
        """Check that ``min.insync.replicas`` replicas are in sync.

        Raises:
            BrokerError: NOT_ENOUGH_REPLICAS.
        """
        wanted = self.topics[partition.topic].options.number("min.insync.replicas")
        in_sync = sum(self.nodes[node_id].alive for node_id in partition.isr)
        # As in Kafka, check this before the append, because a record that isn't acknowledged shouldn't be in the log.
        if in_sync < wanted:
            raise BrokerError(
                ErrorCode.NOT_ENOUGH_REPLICAS, detail=f"in-sync replicas: {in_sync}, min.insync.replicas is {wanted}"
            )

    def new_producer_id(self) -> int:
        """Return a producer id that has never been assigned before."""
        producer_id = self._next_producer_id
        self._next_producer_id += 1
        if producer_id >= self._saved_producer_id:
            # Ids are reserved in blocks, and a block is written before its first id is used. A crash may skip ids, but
            # never repeats one.
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
            name: The topic's name.
            partitions: The number of partitions; -1 for ``num.partitions``.
            replication: The replication factor; -1 for ``default.replication.factor``.
            configs: The topic's options.
            assignment: The replicas of each partition, instead of ``partitions`` and ``replication``. The first replica
                is the preferred leader.
            dry_run: Only check, and return the topic that would be created (``validate_only``).

        Raises:
            BrokerError: The topic can't be created, with CreateTopics' error code.
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
        """Return the topic id in the topic's existing directories, or None if there are no directories.

        If directories were copied from a real broker, creating the topic keeps their topic id.
        """
        directories = [partition_directory(self.root, name, index) for index in range(partitions)]
        found = {topic_id for directory in directories if (topic_id := partition_metadata.read(directory)) is not None}
        taken = found & self._by_id.keys()
        if len(found) > 1 or taken:
            others = f", also of {self._by_id[taken.pop()].name!r}" if taken else ""
            raise BrokerError(
                ErrorCode.INCONSISTENT_TOPIC_ID,
                detail=f"existing directories of {name!r} have {len(found)} topic ids{others}",
            )
        return next(iter(found), None)

    def internal_topic(self, name: str) -> Topic:
        """Return an internal topic, creating it on first use."""
        topic = self.topics.get(name)
        if topic is None:
            topic = self.create_topic(name, *internal_topic_settings(name, self.options, len(self.nodes)))
        return topic

    def add_partitions(
        self, name: str, count: int, assignments: Sequence[Sequence[int]] | None = None, *, dry_run: bool = False
    ) -> None:
        """Increase a topic's number of partitions to ``count``.

        Raises:
            BrokerError: The partitions can't be added, with CreatePartitions' error code.
        """
        topic = self.topics.get(name)
        if topic is None:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, detail=f"topic {name!r} does not exist")
        have = len(topic.partitions)
        if count <= have or count - have > MAX_PARTITIONS:
            has = f"{name!r} has {counted(have, 'partition')}, {count} requested"
            raise BrokerError(ErrorCode.INVALID_PARTITIONS, detail=has)
        if assignments is not None and len(assignments) != count - have:
            raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail="expected one assignment per new partition")
        for nodes in assignments or ():
            self._check_replicas(nodes)
        for index in range(have, count):
            found = partition_metadata.read(partition_directory(self.root, name, index))
            if found not in (None, topic.topic_id):
                detail = f"the existing directory {name}-{index} belongs to another topic id"
                raise BrokerError(ErrorCode.INCONSISTENT_TOPIC_ID, detail=detail)
        if dry_run:
            return
        for index in range(have, count):
            nodes = assignments[index - have] if assignments else self._place_replicas(index, topic.replication)
            self._add_partition(topic, index, nodes)
        self._save_topics([topic])

    def delete_topic(self, topic: Topic) -> None:
        """Delete a topic and its data.

        Raises:
            BrokerError: TOPIC_DELETION_DISABLED; KAFKA_STORAGE_ERROR if a log can't be opened (nothing is deleted).
        """
        if not self.options.value("delete.topic.enable"):
            raise BrokerError(ErrorCode.TOPIC_DELETION_DISABLED)
        # Open all logs first. If one can't be opened, the topic stays as it is, with all its data.
        logs = [partition.log for partition in topic.partitions]
        del self.topics[topic.name], self._by_id[topic.topic_id], self._by_metric_name[_metric_name(topic.name)]
        # Remove the directories before the metadata entry. If a crash happens in between, a recreated topic must not
        # find them.
        for log in logs:
            log.delete()
        self.metadata.put(_TOPIC, topic.name, None)
        # The old entries would otherwise apply to the topic if it's recreated.
        if any((topic.name, partition.index) in self._checkpointed for partition in topic.partitions):
            self.checkpoint()
        for partition in topic.partitions:
            # Let waiting Fetch requests find out that the topic no longer exists.
            partition.wake()
        # Do this last: the coordinators drop their state of the topic, which no request can find any more.
        if self.runtime is not None:
            self.runtime.topic_deleted(topic)

    def configure_topic(self, topic: Topic, configs: Mapping[str, str | None]) -> None:
        """Replace a topic's config overrides. Raises :class:`BrokerError` INVALID_CONFIG."""
        topic.configure(TopicOptions(configs, self.options))
        self._save_topics([topic])

    # ---- options of groups, which can be set before the group exists

    def group_options(self, group_id: str) -> GroupOptions:
        """Return the options of a group."""
        return GroupOptions(self.metadata.get(_GROUP).get(group_id, {}), self.options)

    def set_group_options(self, group_id: str, options: GroupOptions) -> None:
        """Replace the options of a group. :meth:`GroupCoordinator.configure` calls this, and updates the group."""
        self.metadata.put(_GROUP, group_id, options.overrides or None)

    def configured_groups(self) -> list[str]:
        """Return the ids of groups for which options are set."""
        return list(self.metadata.get(_GROUP))

    # ---- dynamic options of brokers (KIP-226)

    def dynamic_options(self, name: str) -> NodeOptions:
        """Return the dynamic options of one node, by its id as text, or of all nodes, by the empty name."""
        kind = NodeOptions if name else ClusterOptions
        return kind(self.metadata.get(_BROKER).get(name, {}), self.options)

    def set_dynamic_options(self, name: str, options: NodeOptions) -> None:
        """Replace the dynamic options of one node, or of all. Topics that inherit an option use the new value at
        once."""
        self.metadata.put(_BROKER, name, options.overrides or None)
        # The options of one node are only stored and described: all nodes of this process share one set of options.
        if isinstance(options, ClusterOptions):
            self.options.dynamic = options.changes()
        for topic in self.topics.values():
            topic.configure(topic.options)

    # ---- leaders and replicas

    def nodes_up(self, node_ids: Collection[int]) -> None:
        """Mark nodes as running. Their replicas join the ISR right away, and become leaders of partitions that have
        none."""
        for node_id in node_ids:
            self.nodes[node_id].alive = True
        for partition in self.partitions():
            back = [node_id for node_id in partition.replicas if node_id in node_ids]
            partition.isr += [node_id for node_id in back if node_id not in partition.isr]
            if back and partition.leader == NO_LEADER:
                self._change_leader(partition, back[0])
        self._save_topics(self.topics.values())

    def node_down(self, node_id: int) -> None:
        """Mark a node as stopped, and elect new leaders for its partitions."""
        self.nodes[node_id].alive = False
        for partition in self.partitions():
            # As in Kafka, the last in-sync replica stays in the ISR: only this replica can become the leader again
            # without an unclean election.
            if node_id in partition.isr and len(partition.isr) > 1:
                partition.isr.remove(node_id)
            # The node is no longer in the ISR, so it can't be elected again.
            if partition.leader == node_id:
                self._change_leader(partition, next(iter(self._electable(partition)), NO_LEADER))
        self._save_topics(self.topics.values())

    def remove_node(self, node_id: int) -> None:
        """Remove a stopped node. Other nodes replace it in the replica lists."""
        del self.nodes[node_id]
        for partition in self.partitions():
            if node_id not in partition.replicas:
                continue
            free = [other for other in self.nodes if other not in partition.replicas]
            successor = free[partition.index % len(free)] if free else None
            replicas = [successor if replica == node_id else replica for replica in partition.replicas]
            partition.replicas = [replica for replica in replicas if replica is not None]
            alive = [replica for replica in partition.replicas if self.nodes[replica].alive]
            partition.isr = alive or partition.replicas[:]
            if partition.leader == NO_LEADER:
                self._change_leader(partition, next(iter(self._electable(partition)), NO_LEADER))
        self._save_topics(self.topics.values())

    def move_leader(self, topic: str, index: int, to_node: int | None = None) -> int:
        """Elect another leader, and return its id. If ``to_node`` isn't a replica, it becomes one.

        Raises:
            BrokerError: UNKNOWN_TOPIC_OR_PARTITION; ELIGIBLE_LEADERS_NOT_AVAILABLE: no other node is running.
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
        """Elect the preferred replica. If ``unclean``, elect any running replica of a partition without a leader
        (KIP-460).

        Raises:
            BrokerError: UNKNOWN_TOPIC_OR_PARTITION, ELECTION_NOT_NEEDED, PREFERRED_LEADER_NOT_AVAILABLE or
                ELIGIBLE_LEADERS_NOT_AVAILABLE.
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
        # The new leader of an unclean election is the only replica in sync: from now on, its log is the truth.
        if able[0] not in partition.isr:
            partition.isr = [able[0]]
        self._change_leader(partition, able[0])
        self._save_topics([self.topics[topic]])

    def reassign(self, topic: str, index: int, replicas: Sequence[int], *, may_resize: bool = True) -> None:
        """Replace a partition's replicas (KIP-455). All nodes share the data, so this completes immediately.

        Raises:
            BrokerError: UNKNOWN_TOPIC_OR_PARTITION; INVALID_REPLICA_ASSIGNMENT, also if none of the nodes is running;
                INVALID_REPLICATION_FACTOR if the number of replicas changes and ``may_resize`` is False (KIP-860).
        """
        partition = self.partition(topic, index)
        self._check_replicas(replicas)
        if not may_resize and len(replicas) != len(partition.replicas):
            raise BrokerError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                detail=f"{topic}-{index} has {counted(len(partition.replicas), 'replica')}, {len(replicas)} requested",
            )
        in_sync = [node_id for node_id in replicas if self.nodes[node_id].alive]
        if not in_sync:
            raise BrokerError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, detail=f"none of the brokers {list(replicas)} runs")
        partition.replicas, partition.isr = list(replicas), in_sync
        if partition.leader not in in_sync:
            self._change_leader(partition, in_sync[0])
        self._save_topics([self.topics[topic]])

    def _electable(self, partition: Partition) -> list[int]:
        return [node_id for node_id in partition.replicas if node_id in partition.isr and self.nodes[node_id].alive]

    def _change_leader(self, partition: Partition, node_id: int) -> None:
        partition.change_leader(node_id)
        if self.runtime is not None:
            self.runtime.leader_changed(partition)

    # ---- helpers

    def _check_counts(self, partitions: int, replication: int) -> None:
        if not 0 < partitions <= MAX_PARTITIONS:
            raise BrokerError(
                ErrorCode.INVALID_PARTITIONS, detail=f"{partitions} partitions are not within 1 to {MAX_PARTITIONS}"
            )
        if not 0 < replication <= len(self.nodes):
            raise BrokerError(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                detail=f"replication factor {replication} is not within 1 to {len(self.nodes)}, the number of brokers",
            )

    def _given_assignment(self, assignment: Mapping[int, Sequence[int]]) -> list[Sequence[int]]:
        replicas = [assignment[index] for index in sorted(assignment)]
        if sorted(assignment) != list(range(len(assignment))) or len({len(nodes) for nodes in replicas}) != 1:
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                detail="partitions must be numbered from 0 and have the same number of replicas",
            )
        self._check_counts(len(replicas), max(len(replicas[0]), 1))
        for nodes in replicas:
            self._check_replicas(nodes)
        return replicas

    def _check_replicas(self, nodes: Sequence[int]) -> None:
        if not nodes or len(set(nodes)) != len(nodes) or not set(nodes) <= set(self.nodes):
            raise BrokerError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                detail=f"replicas {list(nodes)} are not different brokers out of {list(self.nodes)}",
            )

    def _place_replicas(self, index: int, replication: int) -> list[int]:
        ids = list(self.nodes)
        # Place replicas round robin, starting at node 0, so tests can predict leaders. Kafka starts at a random node.
        return [ids[(index + step) % len(ids)] for step in range(replication)]

    def _add_partition(self, topic: Topic, index: int, nodes: Sequence[int], leader_epoch: int = 0) -> None:
        in_sync = [node_id for node_id in nodes if self.nodes[node_id].alive]
        start, recovered, cleaned = (self._checkpoints[name].pop((topic.name, index), 0) for name in _CHECKPOINTS)
        checkpoint = LogCheckpoint(start, recovered, cleaned, self._clean_shutdown)
        partition = Partition(
            topic.name,
            index,
            list(nodes),
            # As in Kafka, the ISR is never empty: otherwise no node could be elected without data loss.
            in_sync or list(nodes),
            in_sync[0] if in_sync else NO_LEADER,
            leader_epoch,
            lambda: self._open_log(topic, index, checkpoint),
            checkpoint,
        )
        topic.partitions.append(partition)
        # Recover at startup, so the first request doesn't have to wait for it.
        if not checkpoint.clean_shutdown:
            partition.open()

    def _add_topic(self, topic: Topic) -> None:
        self.topics[topic.name] = self._by_id[topic.topic_id] = self._by_metric_name[_metric_name(topic.name)] = topic

    # ---- persistence

    def _save_topics(self, topics: Iterable[Topic]) -> None:
        self.metadata.put_all((_TOPIC, topic.name, _as_json(topic)) for topic in topics)

    def _load(self) -> None:
        cluster = self.metadata.get(_CLUSTER)
        self.cluster_id = cluster.get("cluster_id", self.cluster_id)
        self.metadata.put(_CLUSTER, "cluster_id", self.cluster_id)
        self._next_producer_id = self._saved_producer_id = cluster.get("next_producer_id", 0)
        self.options.dynamic = {}
        # Load these before the topics, whose options inherit them.
        self.options.dynamic = ClusterOptions(self.metadata.get(_BROKER).get("", {}), self.options).changes()
        for name, saved in self.metadata.get(_TOPIC).items():
            topic = Topic(name, bytes.fromhex(saved["id"]), TopicOptions(saved["configs"], self.options))
            for index, partition in enumerate(saved["partitions"]):
                replicas = [node_id for node_id in partition["replicas"] if node_id in self.nodes] or [
                    next(iter(self.nodes))
                ]
                self._add_partition(topic, index, replicas, partition["leader_epoch"])
            self._add_topic(topic)

    def _open_log(self, topic: Topic, index: int, checkpoint: LogCheckpoint) -> Log:
        directory = partition_directory(self.root, topic.name, index)
        log = Log(directory, topic.log_config(), self.clock.wall(), checkpoint, topic.topic_id)
        log.on_roll = self._segment_rolled
        return log

    def _segment_rolled(self, log: Log) -> None:
        if self.log_manager is not None:
            self.log_manager.flush_behind(log)

    def checkpoint(self) -> None:
        """Write the checkpoint files: the start offset, recovery point and cleaner offset of every log."""
        logs = {(partition.topic, partition.index): partition.checkpoint for partition in self.partitions()}
        offsets = {
            checkpoints.LOG_START: {key: log.start_offset for key, log in logs.items() if log.start_offset},
            checkpoints.RECOVERY_POINT: {key: log.recovery_point for key, log in logs.items() if log.recovery_point},
            checkpoints.CLEANED: {key: log.cleaned_to for key, log in logs.items() if log.cleaned_to},
        }
        for name, known in offsets.items():
            checkpoints.write(self.root / name, known)
        self._checkpointed = {key for known in offsets.values() for key in known}

    def close(self) -> None:
        """Flush and close every log, and mark a clean shutdown."""
        for log in self.logs():
            log.close()
        # Close the logs first: a log's end is its recovery point only once it's flushed.
        self.checkpoint()
        checkpoints.mark_clean_shutdown(self.root)

    def close_handlers(self) -> None:
        """Close the files of every log without flushing them, for a crash or a temporary directory."""
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
    """Return the topic's name in metrics. Kafka replaces dots with underscores there, and two topics must not get the
    same name."""
    return topic.replace(".", "_")
