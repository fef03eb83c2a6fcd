"""The records of ``__share_group_state``: the progress of share groups in each partition (KIP-932)."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, PartitionIndex, Payload, Struct, TopicId, field, int8, int16, int32, int64
from aiokproto.codec.wire import ZERO_UUID


class ShareSnapshotKey(Payload, versions="0"):
    """Key of a snapshot of a share partition."""

    group_id: GroupId = ""
    """Id of the group."""
    topic_id: TopicId = ZERO_UUID
    partition: PartitionIndex = 0


class StateBatch(Struct):
    """Records with the same delivery state."""

    first_offset: int64 = 0
    """Offset of the first record."""
    last_offset: int64 = 0
    """Offset of the last record."""
    delivery_state: int8 = 0
    """0: available; 2: acknowledged; 3: archiving (KIP-1191); 4: archived. Acquisitions are not stored."""
    delivery_count: int16 = 0
    """How often the records were delivered."""


class ShareSnapshotValue(Payload, versions="0", flexible="0+"):
    """Complete state of a share partition."""

    snapshot_epoch: int32 = 0
    """Number of the snapshot; higher with each one."""
    state_epoch: int32 = 0
    """Epoch of the state, set when the group initializes it; requests with a lower one are fenced."""
    leader_epoch: int32 = 0
    """Leader epoch of the partition at the last write; requests with a lower one are fenced."""
    start_offset: int64 = 0
    """Start offset of the share partition: the delivery of all earlier records is complete; -1: not decided yet."""
    delivery_complete_count: int32 = field(tag=0, default=-1)
    """Number of offsets past the start offset whose delivery is complete (KIP-1226); -1: unknown."""
    create_timestamp: int64 = 0
    """Time the snapshot was first written, in ms since 1970."""
    write_timestamp: int64 = 0
    """Time this record was written, in ms since 1970: later than `create_timestamp` if an old snapshot was rewritten to
    allow deleting older records."""
    state_batches: list[StateBatch] = field(factory=list)
    """Delivery states of the records, starting at the start offset."""


class ShareUpdateKey(Payload, versions="0"):
    """Key of a change since the last snapshot of a share partition."""

    group_id: GroupId = ""
    """Id of the group."""
    topic_id: TopicId = ZERO_UUID
    partition: PartitionIndex = 0


class ShareUpdateValue(Payload, versions="0", flexible="0+"):
    """A change since the last snapshot of a share partition."""

    snapshot_epoch: int32 = 0
    """Number of the snapshot that the change applies to."""
    leader_epoch: int32 = 0
    """Leader epoch of the partition; -1: unchanged."""
    start_offset: int64 = 0
    """Start offset of the share partition; -1: unchanged."""
    delivery_complete_count: int32 = field(tag=0, default=-1)
    """Number of offsets past the start offset whose delivery is complete (KIP-1226); -1: unknown."""
    state_batches: list[StateBatch] = field(factory=list)
    """Delivery states that have changed."""
