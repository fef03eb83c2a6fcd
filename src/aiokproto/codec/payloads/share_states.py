"""The records of ``__share_group_state``: how far share groups have come in each partition (KIP-932)."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, PartitionIndex, Payload, Struct, TopicId, field, int8, int16, int32, int64
from aiokproto.codec.wire import ZERO_UUID


class ShareSnapshotKey(Payload, versions="0"):
    group_id: GroupId = ""
    topic_id: TopicId = ZERO_UUID
    partition: PartitionIndex = 0


class StateBatch(Struct):
    first_offset: int64 = 0
    last_offset: int64 = 0
    delivery_state: int8 = 0
    delivery_count: int16 = 0


class ShareSnapshotValue(Payload, versions="0", flexible="0+"):
    snapshot_epoch: int32 = 0
    state_epoch: int32 = 0
    leader_epoch: int32 = 0
    start_offset: int64 = 0
    delivery_complete_count: int32 = field(tag=0, default=-1)
    create_timestamp: int64 = 0
    write_timestamp: int64 = 0
    state_batches: list[StateBatch] = field(factory=list)


class ShareUpdateKey(Payload, versions="0"):
    group_id: GroupId = ""
    topic_id: TopicId = ZERO_UUID
    partition: PartitionIndex = 0


class ShareUpdateValue(Payload, versions="0", flexible="0+"):
    snapshot_epoch: int32 = 0
    leader_epoch: int32 = 0
    start_offset: int64 = 0
    delivery_complete_count: int32 = field(tag=0, default=-1)
    state_batches: list[StateBatch] = field(factory=list)
