"""The records of ``__share_group_state``, in Kafka's format: an int16 type or version, then the payload.

A snapshot contains the whole state of a share partition. An update contains a change since a snapshot, identified by
the snapshot's epoch. A tombstone with the snapshot's key deletes the state.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

from aiokproto.codec.payloads import share_states
from aiokproto.codec.payloads.share_states import ShareSnapshotKey, ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue

_INT16 = struct.Struct(">h")
_SNAPSHOT, _UPDATE = 0, 1
"""Record types, which are the first two bytes of keys."""
_VERSION = 0
"""The version of all keys and values: there has been only one so far."""


@dataclass(frozen=True, slots=True)
class StateBatch:
    """Consecutive offsets in the same state.

    Attributes:
        first_offset: The first offset.
        last_offset: The last offset.
        delivery_state: Kafka's number of the state: 0 available, 2 acknowledged, 3 archiving (to a dead-letter topic),
            4 archived.
        delivery_count: How often they were delivered.
    """

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


@dataclass(frozen=True, slots=True)
class ShareGroupOffset:
    """The persisted state of a share partition (Kafka's ShareGroupOffset).

    Attributes:
        start_offset: The first offset that is not in a terminal state. -1 means that ``share.auto.offset.reset``
            decides.
        state_epoch: Grows each time the start offset is reset. An older epoch cannot write.
        leader_epoch: The leader epoch of the last writer. An older epoch cannot read or write.
        batches: The states of offsets starting at the start offset, in order and without overlaps.
        delivery_complete_count: The number of offsets past the start offset that are in a terminal state (KIP-1226); -1
            if unknown.
    """

    start_offset: int
    state_epoch: int
    leader_epoch: int
    batches: tuple[StateBatch, ...]
    delivery_complete_count: int


class SharePartitionKey(NamedTuple):
    """The key of a share partition: a group and a partition."""

    group: str
    topic_id: bytes
    partition: int


class Snapshot(NamedTuple):
    """The whole state of a share partition.

    Attributes:
        epoch: Grows with each snapshot of the share partition.
        created: When a request last caused a snapshot to be written (ms).
        written: When this snapshot was written (ms). Later than ``created`` if it only replaces an old snapshot.
    """

    epoch: int
    state_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    created: int
    written: int
    batches: tuple[StateBatch, ...]


class Update(NamedTuple):
    """A change since the snapshot with this epoch. A start offset of -1 means unchanged."""

    epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    batches: tuple[StateBatch, ...]


def encode_key(key: SharePartitionKey, kind: type[Snapshot | Update]) -> bytes:
    """Encode the key of a snapshot or an update."""
    group, topic_id, partition = key
    if kind is Snapshot:
        snapshot = ShareSnapshotKey(group_id=group, topic_id=topic_id, partition=partition)
        return _INT16.pack(_SNAPSHOT) + snapshot.encode(_VERSION)
    update = ShareUpdateKey(group_id=group, topic_id=topic_id, partition=partition)
    return _INT16.pack(_UPDATE) + update.encode(_VERSION)


def encode_value(record: Snapshot | Update) -> bytes:
    """Encode a snapshot or an update."""
    if isinstance(record, Snapshot):
        return _INT16.pack(_VERSION) + ShareSnapshotValue(
            snapshot_epoch=record.epoch,
            state_epoch=record.state_epoch,
            leader_epoch=record.leader_epoch,
            start_offset=record.start_offset,
            delivery_complete_count=record.delivery_complete_count,
            create_timestamp=record.created,
            write_timestamp=record.written,
            state_batches=[_encoded(batch) for batch in record.batches],
        ).encode(_VERSION)
    return _INT16.pack(_VERSION) + ShareUpdateValue(
        snapshot_epoch=record.epoch,
        leader_epoch=record.leader_epoch,
        start_offset=record.start_offset,
        delivery_complete_count=record.delivery_complete_count,
        state_batches=[_encoded(batch) for batch in record.batches],
    ).encode(_VERSION)


def decode(key: bytes, value: bytes | None) -> tuple[SharePartitionKey, Snapshot | Update | None] | None:
    """Decode a record into a share partition and its snapshot or update.

    Returns:
        The key and the record, which is None for a tombstone. None if the record is of another type.
    """
    # The key starts with the type, where other records have a version (CoordinatorRecordType).
    (kind,) = _INT16.unpack_from(key)
    if kind == _SNAPSHOT:
        snapshot_key = ShareSnapshotKey.decode(key[2:], _VERSION)
        share_partition = SharePartitionKey(snapshot_key.group_id, snapshot_key.topic_id, snapshot_key.partition)
        return share_partition, _decode_snapshot(value) if value is not None else None
    if kind == _UPDATE and value is not None:
        update_key = ShareUpdateKey.decode(key[2:], _VERSION)
        share_partition = SharePartitionKey(update_key.group_id, update_key.topic_id, update_key.partition)
        return share_partition, _decode_update(value)
    return None


def _decode_snapshot(value: bytes) -> Snapshot:
    read = ShareSnapshotValue.decode(value[2:], _INT16.unpack_from(value)[0])
    return Snapshot(
        read.snapshot_epoch,
        read.state_epoch,
        read.leader_epoch,
        read.start_offset,
        read.delivery_complete_count,
        read.create_timestamp,
        read.write_timestamp,
        _batches(read.state_batches),
    )


def _decode_update(value: bytes) -> Update:
    read = ShareUpdateValue.decode(value[2:], _INT16.unpack_from(value)[0])
    return Update(
        read.snapshot_epoch,
        read.leader_epoch,
        read.start_offset,
        read.delivery_complete_count,
        _batches(read.state_batches),
    )


def _batches(batches: list[share_states.StateBatch]) -> tuple[StateBatch, ...]:
    return tuple(
        StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
        for batch in batches
    )


def _encoded(batch: StateBatch) -> share_states.StateBatch:
    return share_states.StateBatch(
        first_offset=batch.first_offset,
        last_offset=batch.last_offset,
        delivery_state=batch.delivery_state,
        delivery_count=batch.delivery_count,
    )
