"""Key and value of the coordinator's share group current member assignment records."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, int8, int32, string, uuid


class ShareGroupCurrentMemberAssignmentKey(Payload, versions="0"):
    group_id: string
    member_id: string


class TopicPartitions(Struct):
    topic_id: uuid
    partitions: list[int32]


class ShareGroupCurrentMemberAssignmentValue(Payload, versions="0", flexible="0+"):
    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    assigned_partitions: list[TopicPartitions]
