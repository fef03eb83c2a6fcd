"""Key and value of the coordinator's consumer group target assignment member records."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, int32, string, uuid


class ConsumerGroupTargetAssignmentMemberKey(Payload, versions="0"):
    group_id: string
    member_id: string


class TopicPartition(Struct):
    topic_id: uuid
    partitions: list[int32]


class ConsumerGroupTargetAssignmentMemberValue(Payload, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition]
