"""Key and value of the coordinator's streams group target assignment member records."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, int32, string


class StreamsGroupTargetAssignmentMemberKey(Payload, versions="0"):
    group_id: string
    member_id: string


class TaskIds(Struct):
    subtopology_id: string
    partitions: list[int32]


class StreamsGroupTargetAssignmentMemberValue(Payload, versions="0", flexible="0+"):
    active_tasks: list[TaskIds]
    standby_tasks: list[TaskIds]
    warmup_tasks: list[TaskIds]
