"""The share group partition metadata key."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, string


class ShareGroupPartitionMetadataKey(Payload, versions="9"):
    group_id: string
