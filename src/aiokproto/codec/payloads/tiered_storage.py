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
    """A partition, by name and id of its topic."""

    name: TopicName = ""
    id: TopicId = ZERO_UUID
    partition: PartitionIndex = 0


class RemoteLogSegmentIdEntry(Struct):
    """A segment in tiered storage."""

    topic_id_partition: TopicIdPartitionEntry = field(factory=TopicIdPartitionEntry)
    id: uuid = ZERO_UUID
    """Id of the segment, new for each attempt to copy it."""


class SegmentLeaderEpochEntry(Struct):
    """Start of a leader epoch in the segment."""

    leader_epoch: int32 = 0
    """Leader epoch."""
    offset: int64 = 0
    """First offset of the epoch, or of the segment if the epoch began before it."""


class RemoteLogSegmentMetadataRecord(Payload, versions="0", flexible="0+"):
    """A broker began to copy a segment to tiered storage."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = field(factory=RemoteLogSegmentIdEntry)
    start_offset: int64 = 0
    """First offset of the segment."""
    end_offset: int64 = 0
    """Last offset of the segment."""
    broker_id: BrokerId = 0
    """Broker that wrote the record."""
    max_timestamp_ms: int64 = 0
    """Largest timestamp in the segment, in ms since 1970."""
    event_timestamp_ms: int64 = 0
    """Time of the event, in ms since 1970."""
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = field(factory=list)
    """Leader epochs of the segment's records."""
    segment_size_in_bytes: int32 = 0
    """Size of the segment, in bytes."""
    custom_metadata: bytes | None = None
    """Bytes of the storage plugin; null: none."""
    remote_log_segment_state: int8 = 0
    """0: COPY_SEGMENT_STARTED; 1: COPY_SEGMENT_FINISHED; 2: DELETE_SEGMENT_STARTED; 3: DELETE_SEGMENT_FINISHED."""
    txn_index_empty: bool = field(tag=0, default=False)
    """Whether the segment contains no aborted transaction, so its index doesn't have to be fetched."""


class RemoteLogSegmentMetadataUpdateRecord(Payload, versions="0", flexible="0+"):
    """The state of a segment in tiered storage changed."""

    remote_log_segment_id: RemoteLogSegmentIdEntry = field(factory=RemoteLogSegmentIdEntry)
    broker_id: BrokerId = 0
    """Broker that wrote the record."""
    event_timestamp_ms: int64 = 0
    """Time of the event, in ms since 1970."""
    custom_metadata: bytes | None = None
    """Bytes of the storage plugin; null: none."""
    remote_log_segment_state: int8 = 0
    """State of the segment, as in `RemoteLogSegmentMetadataRecord`."""


class RemoteLogSegmentMetadataSnapshotRecord(Payload, versions="0", flexible="0+"):
    """A segment in a snapshot of a partition's remote log metadata."""

    segment_id: uuid = ZERO_UUID
    """Id of the segment."""
    start_offset: int64 = 0
    """First offset of the segment."""
    end_offset: int64 = 0
    """Last offset of the segment."""
    broker_id: BrokerId = 0
    """Broker that wrote the last change."""
    max_timestamp_ms: int64 = 0
    """Largest timestamp in the segment, in ms since 1970."""
    event_timestamp_ms: int64 = 0
    """Time of the last change, in ms since 1970."""
    segment_leader_epochs: list[SegmentLeaderEpochEntry] = field(factory=list)
    """Leader epochs of the segment's records."""
    segment_size_in_bytes: int32 = 0
    """Size of the segment, in bytes."""
    custom_metadata: bytes | None = None
    """Bytes of the storage plugin; null: none."""
    remote_log_segment_state: int8 = 0
    """State of the segment, as in `RemoteLogSegmentMetadataRecord`."""
    txn_index_empty: bool = field(tag=0, default=False)
    """Whether the segment contains no aborted transaction, so its index doesn't have to be fetched."""


class RemotePartitionDeleteMetadataRecord(Payload, versions="0", flexible="0+"):
    """The deletion of a partition's segments in tiered storage advanced."""

    topic_id_partition: TopicIdPartitionEntry = field(factory=TopicIdPartitionEntry)
    broker_id: BrokerId = 0
    """Broker or controller that wrote the record."""
    event_timestamp_ms: int64 = 0
    """Time of the event, in ms since 1970."""
    remote_partition_delete_state: int8 = 0
    """0: DELETE_PARTITION_MARKED; 1: DELETE_PARTITION_STARTED; 2: DELETE_PARTITION_FINISHED."""
