"""The remote log segment metadata snapshot record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, Payload, Struct, field, int8, int32, int64, uuid
from aiokproto.codec.wire import ZERO_UUID


class SegmentLeaderEpochEntry(Struct):
    leader_epoch: int32 = 0
    offset: int64 = 0


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
