"""The remote log segment metadata update record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, field, int8, int32, int64, string, uuid


class TopicIdPartitionEntry(Struct):
    name: string
    id: uuid
    partition: int32


class RemoteLogSegmentIdEntry(Struct):
    topic_id_partition: TopicIdPartitionEntry
    id: uuid


class RemoteLogSegmentMetadataUpdateRecord(Payload, versions="0", flexible="0+"):
    remote_log_segment_id: RemoteLogSegmentIdEntry
    broker_id: int32
    event_timestamp_ms: int64
    custom_metadata: bytes | None = field(default=None)
    remote_log_segment_state: int8
