"""Key and value of the coordinator's consumer group current member assignment records."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, field, int8, int32, string, uuid


class ConsumerGroupCurrentMemberAssignmentKey(Payload, versions="0"):
    group_id: string
    member_id: string


class TopicPartitions(Struct):
    topic_id: uuid
    partitions: list[int32]
    assignment_epochs: list[int32] | None = field(tag=0, factory=list)


class ConsumerGroupCurrentMemberAssignmentValue(Payload, versions="0", flexible="0+"):
    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    assigned_partitions: list[TopicPartitions]
    partitions_pending_revocation: list[TopicPartitions]
