"""What members of a classic consumer group tell each other inside JoinGroup and SyncGroup."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, field, int32, string


class TopicPartition(Struct):
    topic: string
    partitions: list[int32]


class ConsumerProtocolAssignment(Payload, versions="0-3"):
    assigned_partitions: list[TopicPartition]
    user_data: bytes | None = field(default=None)


class ConsumerProtocolSubscription(Payload, versions="0-3"):
    topics: list[string]
    user_data: bytes | None = field(default=None)
    owned_partitions: list[TopicPartition] = field("1+", factory=list, ignorable=True)
    generation_id: int32 = field("2+", default=-1, ignorable=True)
    rack_id: string | None = field("3+", default=None, ignorable=True)
