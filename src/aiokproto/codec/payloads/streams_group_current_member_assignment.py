"""Key and value of the coordinator's streams group current member assignment records."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, PartitionIndex, Payload, Struct, field, int8, int32, string


class StreamsGroupCurrentMemberAssignmentKey(Payload, versions="0"):
    group_id: GroupId = ""
    member_id: string = ""


class TaskIds(Struct):
    subtopology_id: string = ""
    partitions: list[PartitionIndex] = field(factory=list)
    assignment_epochs: list[int32] | None = field(tag=0, factory=list)


class StreamsGroupCurrentMemberAssignmentValue(Payload, versions="0", flexible="0+"):
    member_epoch: int32 = 0
    previous_member_epoch: int32 = 0
    state: int8 = 0
    active_tasks: list[TaskIds] = field(factory=list)
    standby_tasks: list[TaskIds] = field(factory=list)
    warmup_tasks: list[TaskIds] = field(factory=list)
    active_tasks_pending_revocation: list[TaskIds] = field(factory=list)
    standby_tasks_pending_revocation: list[TaskIds] = field(factory=list)
    warmup_tasks_pending_revocation: list[TaskIds] = field(factory=list)
