"""Key and value of the coordinator's share group target assignment metadata records."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Payload, field, int32, int64


class ShareGroupTargetAssignmentMetadataKey(Payload, versions="0"):
    group_id: GroupId = ""


class ShareGroupTargetAssignmentMetadataValue(Payload, versions="0", flexible="0+"):
    assignment_epoch: int32 = 0
    assignment_timestamp: int64 = field(tag=0, default=0)
