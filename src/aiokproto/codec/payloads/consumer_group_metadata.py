"""Key and value of the coordinator's consumer group metadata records."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Payload, field, int32, int64


class ConsumerGroupMetadataKey(Payload, versions="0"):
    group_id: GroupId = ""


class ConsumerGroupMetadataValue(Payload, versions="0", flexible="0+"):
    epoch: int32 = 0
    metadata_hash: int64 = field(tag=0, default=0)
