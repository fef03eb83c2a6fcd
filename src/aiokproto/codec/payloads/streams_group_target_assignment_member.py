"""Key and value of the coordinator's streams group target assignment member records."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, PartitionIndex, Payload, Struct, field, string


class StreamsGroupTargetAssignmentMemberKey(Payload, versions="0"):
    group_id: GroupId = ""
    member_id: string = ""


class TaskIds(Struct):
    subtopology_id: string = ""
    partitions: list[PartitionIndex] = field(factory=list)


class StreamsGroupTargetAssignmentMemberValue(Payload, versions="0", flexible="0+"):
    active_tasks: list[TaskIds] = field(factory=list)
    standby_tasks: list[TaskIds] = field(factory=list)
    warmup_tasks: list[TaskIds] = field(factory=list)
