"""The records of ``__cluster_metadata`` about topics and partitions (KIP-500)."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, PartitionIndex, Payload, TopicId, TopicName, field, int8, int32, uuid
from aiokproto.codec.wire import ZERO_UUID


class TopicRecord(Payload, versions="0", flexible="0+"):
    """A topic was created.

    Its partitions follow as `PartitionRecord`, its options as `ConfigRecord`.
    """

    name: TopicName = ""
    topic_id: TopicId = ZERO_UUID


class RemoveTopicRecord(Payload, versions="0", flexible="0+"):
    """A topic was deleted, with its partitions and configuration."""

    topic_id: TopicId = ZERO_UUID


class PartitionRecord(Payload, versions="0-2", flexible="0+"):
    """A partition was created: its complete state.

    Also the form of a partition in a snapshot.
    """

    partition_id: PartitionIndex = -1
    topic_id: TopicId = ZERO_UUID
    replicas: list[BrokerId] = field(factory=list)
    """Brokers that hold a replica; the first is the preferred leader."""
    isr: list[BrokerId] = field(factory=list)
    """In-sync replicas."""
    removing_replicas: list[BrokerId] = field(factory=list)
    """Replicas that a reassignment removes."""
    adding_replicas: list[BrokerId] = field(factory=list)
    """Replicas that a reassignment adds."""
    leader: BrokerId = -1
    """Leader of the partition; -1: none."""
    leader_recovery_state: int8 = field(tag=0, default=0)
    """0: the leader was elected from the in-sync replicas, or has recovered; 1: it was elected uncleanly and is
    recovering (KIP-704)."""
    leader_epoch: int32 = -1
    """Epoch of the leader, higher after each election."""
    partition_epoch: int32 = -1
    """Counts the changes of this partition's state."""
    directories: list[uuid] = field("1+", factory=list)
    """Log directory of each replica, in the order of `replicas` (KIP-858). Reserved ids: 0, unknown since a migration;
    1, unassigned; 2, lost, on a directory that is offline."""
    eligible_leader_replicas: list[BrokerId] | None = field("2+", tag=1, default=None)
    """Replicas outside of the ISR that have all committed records (KIP-966); null: none."""
    last_known_elr: list[int32] | None = field("2+", tag=2, default=None)
    """Last leader, or eligible leader replicas after an unclean shutdown: candidates for the recovery of a partition
    without eligible ones (KIP-966); null: none."""


class PartitionChangeRecord(Payload, versions="0-2", flexible="0+"):
    """The state of a partition changed. Fields at their defaults are unchanged.

    Each record increments the partition epoch; one that sets `leader` also increments the leader epoch.
    """

    partition_id: PartitionIndex = -1
    topic_id: TopicId = ZERO_UUID
    isr: list[BrokerId] | None = field(tag=0, default=None)
    """In-sync replicas; null: unchanged."""
    leader: BrokerId = field(tag=1, default=-2)
    """Leader of the partition; -1: none; -2: unchanged."""
    replicas: list[BrokerId] | None = field(tag=2, default=None)
    """Brokers that hold a replica; null: unchanged."""
    removing_replicas: list[BrokerId] | None = field(tag=3, default=None)
    """Replicas that a reassignment removes; null: unchanged."""
    adding_replicas: list[BrokerId] | None = field(tag=4, default=None)
    """Replicas that a reassignment adds; null: unchanged."""
    leader_recovery_state: int8 = field(tag=5, default=-1)
    """0: recovered; 1: recovering from an unclean election (KIP-704); -1: unchanged."""
    directories: list[uuid] | None = field("1+", tag=8, default=None)
    """Log directory of each replica, as in `PartitionRecord`; null: unchanged."""
    eligible_leader_replicas: list[BrokerId] | None = field("2+", tag=6, default=None)
    """Replicas outside of the ISR that have all committed records (KIP-966); null: unchanged."""
    last_known_elr: list[int32] | None = field("2+", tag=7, default=None)
    """Candidates for a recovery, as in `PartitionRecord`; null: unchanged."""


class ClearElrRecord(Payload, versions="0", flexible="0+"):
    """The eligible leader replicas of a topic, or of all topics, were cleared (KIP-966).

    Written when `min.insync.replicas` changes, since eligibility depends on it. An empty `topic_name` means all topics.
    """

    topic_name: TopicName = ""
