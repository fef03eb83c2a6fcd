"""Key and value of the coordinator's share group current member assignment records."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, PartitionIndex, Payload, Struct, TopicId, field, int8, int32, string
from aiokproto.codec.wire import ZERO_UUID


class ShareGroupCurrentMemberAssignmentKey(Payload, versions="0"):
    group_id: GroupId = ""
    member_id: string = ""


class TopicPartitions(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionIndex] = field(factory=list)


class ShareGroupCurrentMemberAssignmentValue(Payload, versions="0", flexible="0+"):
    member_epoch: int32 = 0
    previous_member_epoch: int32 = 0
    state: int8 = 0
    assigned_partitions: list[TopicPartitions] = field(factory=list)
