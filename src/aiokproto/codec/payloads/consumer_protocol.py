"""What members of a classic consumer group tell each other inside JoinGroup and SyncGroup."""

from __future__ import annotations

from aiokproto.codec.schema import PartitionIndex, Payload, Struct, TopicName, field, int32, string


class TopicPartition(Struct):
    topic: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class ConsumerProtocolAssignment(Payload, versions="0-3"):
    assigned_partitions: list[TopicPartition] = field(factory=list)
    user_data: bytes | None = None


class ConsumerProtocolSubscription(Payload, versions="0-3"):
    topics: list[TopicName] = field(factory=list)
    user_data: bytes | None = None
    owned_partitions: list[TopicPartition] = field("1+", factory=list, ignorable=True)
    generation_id: int32 = field("2+", default=-1, ignorable=True)
    rack_id: string | None = field("3+", default=None, ignorable=True)
