"""The share group partition metadata key."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Payload


class ShareGroupPartitionMetadataKey(Payload, versions="9"):
    group_id: GroupId = ""
