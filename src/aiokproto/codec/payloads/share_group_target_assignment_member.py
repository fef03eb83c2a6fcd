"""Key and value of the coordinator's share group target assignment member records."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, PartitionIndex, Payload, Struct, TopicId, field, string
from aiokproto.codec.wire import ZERO_UUID


class ShareGroupTargetAssignmentMemberKey(Payload, versions="0"):
    group_id: GroupId = ""
    member_id: string = ""


class TopicPartition(Struct):
    topic_id: TopicId = ZERO_UUID
    partitions: list[PartitionIndex] = field(factory=list)


class ShareGroupTargetAssignmentMemberValue(Payload, versions="0", flexible="0+"):
    topic_partitions: list[TopicPartition] = field(factory=list)
