"""The data that members of a classic consumer group exchange through JoinGroup and SyncGroup."""

from __future__ import annotations

from aiokproto.codec.schema import PartitionIndex, Payload, Struct, TopicName, field, int32, string


class TopicPartition(Struct):
    """Partitions of one topic."""

    topic: TopicName = ""
    partitions: list[PartitionIndex] = field(factory=list)


class ConsumerProtocolAssignment(Payload, versions="0-3"):
    """The partitions of one member: the assignment bytes of SyncGroup, which the group's leader computes."""

    assigned_partitions: list[TopicPartition] = field(factory=list)
    user_data: bytes | None = None
    """Bytes for the member's assignor; null: none."""


class ConsumerProtocolSubscription(Payload, versions="0-3"):
    """A member's subscription: the metadata bytes of JoinGroup."""

    topics: list[TopicName] = field(factory=list)
    user_data: bytes | None = None
    """Bytes from the member's assignor to the leader's; null: none."""
    owned_partitions: list[TopicPartition] = field("1+", factory=list, ignorable=True)
    generation_id: int32 = field("2+", default=-1, ignorable=True)
    """Generation in which the member owned `owned_partitions`; -1: none (KIP-792)."""
    rack_id: string | None = field("3+", default=None, ignorable=True)
    """Rack of the member; null: none."""
