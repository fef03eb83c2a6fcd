"""The remote log segment metadata update record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import (
    BrokerId,
    PartitionIndex,
    Payload,
    Struct,
    TopicId,
    TopicName,
    field,
    int8,
    int64,
    uuid,
)
from aiokproto.codec.wire import ZERO_UUID


class TopicIdPartitionEntry(Struct):
    name: TopicName = ""
    id: TopicId = ZERO_UUID
    partition: PartitionIndex = 0


class RemoteLogSegmentIdEntry(Struct):
    topic_id_partition: TopicIdPartitionEntry = field(factory=TopicIdPartitionEntry)
    id: uuid = ZERO_UUID


class RemoteLogSegmentMetadataUpdateRecord(Payload, versions="0", flexible="0+"):
    remote_log_segment_id: RemoteLogSegmentIdEntry = field(factory=RemoteLogSegmentIdEntry)
    broker_id: BrokerId = 0
    event_timestamp_ms: int64 = 0
    custom_metadata: bytes | None = None
    remote_log_segment_state: int8 = 0
