"""Key and value of the coordinator's consumer group target assignment metadata records."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, field, int32, int64, string


class ConsumerGroupTargetAssignmentMetadataKey(Payload, versions="0"):
    group_id: string


class ConsumerGroupTargetAssignmentMetadataValue(Payload, versions="0", flexible="0+"):
    assignment_epoch: int32
    assignment_timestamp: int64 = field(tag=0, default=0)
