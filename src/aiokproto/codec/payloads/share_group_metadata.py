"""Key and value of the coordinator's share group metadata records."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, int32, int64, string


class ShareGroupMetadataKey(Payload, versions="0"):
    group_id: string


class ShareGroupMetadataValue(Payload, versions="0", flexible="0+"):
    epoch: int32
    metadata_hash: int64
