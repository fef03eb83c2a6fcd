"""The records of ``__remote_log_metadata``: log segments in tiered storage (KIP-405)."""

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
    int32,
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


class SegmentLeaderEpochEntry(Struct):
    leader_epoch: int32 = 0
    offset: int64 = 0


class RemoteLogSegmentMetadataRecord(Payload, versions="0", flexible="0+"):
    remote_log_segment_id: RemoteLogSegmentIdEntry = field(factory=RemoteLogSegmentIdEntry)
    start_offset: int64 = 0
    end_offset: int64 = 0
    broker_id: BrokerId = 0
    max_timestamp_ms: int64 = 0
    event_timestamp_ms: int64 = 0
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = field(factory=list)
    segment_size_in_bytes: int32 = 0
    custom_metadata: bytes | None = None
    remote_log_segment_state: int8 = 0
    txn_index_empty: bool = field(tag=0, default=False)


class RemoteLogSegmentMetadataUpdateRecord(Payload, versions="0", flexible="0+"):
    remote_log_segment_id: RemoteLogSegmentIdEntry = field(factory=RemoteLogSegmentIdEntry)
    broker_id: BrokerId = 0
    event_timestamp_ms: int64 = 0
    custom_metadata: bytes | None = None
    remote_log_segment_state: int8 = 0


class RemoteLogSegmentMetadataSnapshotRecord(Payload, versions="0", flexible="0+"):
    segment_id: uuid = ZERO_UUID
    start_offset: int64 = 0
    end_offset: int64 = 0
    broker_id: BrokerId = 0
    max_timestamp_ms: int64 = 0
    event_timestamp_ms: int64 = 0
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = field(factory=list)
    segment_size_in_bytes: int32 = 0
    custom_metadata: bytes | None = None
    remote_log_segment_state: int8 = 0
    txn_index_empty: bool = field(tag=0, default=False)


class RemotePartitionDeleteMetadataRecord(Payload, versions="0", flexible="0+"):
    topic_id_partition: TopicIdPartitionEntry = field(factory=TopicIdPartitionEntry)
    broker_id: BrokerId = 0
    event_timestamp_ms: int64 = 0
    remote_partition_delete_state: int8 = 0
