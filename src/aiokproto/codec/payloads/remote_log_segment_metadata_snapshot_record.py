"""The remote log segment metadata snapshot record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, field, int8, int32, int64, uuid


class SegmentLeaderEpochEntry(Struct):
    leader_epoch: int32
    offset: int64


class RemoteLogSegmentMetadataSnapshotRecord(Payload, versions="0", flexible="0+"):
    segment_id: uuid
    start_offset: int64
    end_offset: int64
    broker_id: int32
    max_timestamp_ms: int64
    event_timestamp_ms: int64
    segment_leader_epochs: list[SegmentLeaderEpochEntry]
    segment_size_in_bytes: int32
    custom_metadata: bytes | None = field(default=None)
    remote_log_segment_state: int8
    txn_index_empty: bool = field(tag=0, default=False)
