"""Key and value of the coordinator's share group metadata records."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Payload, int32, int64


class ShareGroupMetadataKey(Payload, versions="0"):
    group_id: GroupId = ""


class ShareGroupMetadataValue(Payload, versions="0", flexible="0+"):
    epoch: int32 = 0
    metadata_hash: int64 = 0
