"""The records of ``__cluster_metadata`` about topics and partitions (KIP-500)."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, PartitionIndex, Payload, TopicId, TopicName, field, int8, int32, uuid
from aiokproto.codec.wire import ZERO_UUID


class TopicRecord(Payload, versions="0", flexible="0+"):
    name: TopicName = ""
    topic_id: TopicId = ZERO_UUID


class RemoveTopicRecord(Payload, versions="0", flexible="0+"):
    topic_id: TopicId = ZERO_UUID


class PartitionRecord(Payload, versions="0-2", flexible="0+"):
    partition_id: PartitionIndex = -1
    topic_id: TopicId = ZERO_UUID
    replicas: list[BrokerId] = field(factory=list)
    isr: list[BrokerId] = field(factory=list)
    removing_replicas: list[BrokerId] = field(factory=list)
    adding_replicas: list[BrokerId] = field(factory=list)
    leader: BrokerId = -1
    leader_recovery_state: int8 = field(tag=0, default=0)
    leader_epoch: int32 = -1
    partition_epoch: int32 = -1
    directories: list[uuid] = field("1+", factory=list)
    eligible_leader_replicas: list[BrokerId] | None = field("2+", tag=1, default=None)
    last_known_elr: list[int32] | None = field("2+", tag=2, default=None)


class PartitionChangeRecord(Payload, versions="0-2", flexible="0+"):
    partition_id: PartitionIndex = -1
    topic_id: TopicId = ZERO_UUID
    isr: list[BrokerId] | None = field(tag=0, default=None)
    leader: BrokerId = field(tag=1, default=-2)
    replicas: list[BrokerId] | None = field(tag=2, default=None)
    removing_replicas: list[BrokerId] | None = field(tag=3, default=None)
    adding_replicas: list[BrokerId] | None = field(tag=4, default=None)
    leader_recovery_state: int8 = field(tag=5, default=-1)
    directories: list[uuid] | None = field("1+", tag=8, default=None)
    eligible_leader_replicas: list[BrokerId] | None = field("2+", tag=6, default=None)
    last_known_elr: list[int32] | None = field("2+", tag=7, default=None)


class ClearElrRecord(Payload, versions="0", flexible="0+"):
    topic_name: TopicName = ""
