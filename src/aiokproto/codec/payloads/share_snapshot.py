"""Key and value of the coordinator's share snapshot records."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, Struct, field, int8, int16, int32, int64, string, uuid


class ShareSnapshotKey(Payload, versions="0"):
    group_id: string
    topic_id: uuid
    partition: int32


class StateBatch(Struct):
    first_offset: int64
    last_offset: int64
    delivery_state: int8
    delivery_count: int16


class ShareSnapshotValue(Payload, versions="0", flexible="0+"):
    snapshot_epoch: int32
    state_epoch: int32
    leader_epoch: int32
    start_offset: int64
    delivery_complete_count: int32 = field(tag=0, default=-1)
    create_timestamp: int64
    write_timestamp: int64
    state_batches: list[StateBatch]
