"""Key and value of the coordinator's streams group current member assignment records."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, field, int8, int32, string


class StreamsGroupCurrentMemberAssignmentKey(Payload, versions="0"):
    group_id: string
    member_id: string


class TaskIds(Struct):
    subtopology_id: string
    partitions: list[int32]
    assignment_epochs: list[int32] | None = field(tag=0, factory=list)


class StreamsGroupCurrentMemberAssignmentValue(Payload, versions="0", flexible="0+"):
    member_epoch: int32
    previous_member_epoch: int32
    state: int8
    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]
    active_tasks_pending_revocation: list[TaskIds]
    standby_tasks_pending_revocation: list[TaskIds]
    warmup_tasks_pending_revocation: list[TaskIds]
