"""Records of committed offsets and classic groups in the offsets topic, in Kafka's format.

A key is an int16 record type and the payload; a value is an int16 version and the payload. A classic group is one
record, which holds all members.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from aiokproto.broker.groups.classic_group import ClassicGroup
from aiokproto.broker.groups.classic_member import ClassicMember
from aiokproto.codec.payloads.offsets_topic import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

_INT16 = struct.Struct(">h")

# Record types. Before Kafka 4.0 they were versions of one key schema. Kafka 0.8 wrote offsets with type 0.
_OFFSET_KEYS = (0, 1)
_OFFSET_KEY = 1
_GROUP_KEY = 2
_VALUE_VERSION = 3
"""The version in which both values are written: every Kafka since 2.3 can read it."""


class OffsetAndMetadata(NamedTuple):
    """A committed offset.

    Attributes:
        offset: The offset of the next record to read.
        leader_epoch: The leader epoch of the last record read; -1 if unknown.
        metadata: An arbitrary string from the client.
        timestamp: When it was committed (ms).
        expires: When it expires (ms), from OffsetCommit v2-4's retention; -1: ``offsets.retention.minutes`` applies.
    """

    offset: int
    leader_epoch: int
    metadata: str
    timestamp: int
    expires: int = -1


def encode_offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """Encode the key of a committed offset."""
    return _INT16.pack(_OFFSET_KEY) + OffsetCommitKey(group=group_id, topic=topic, partition=partition).encode(0)


def encode_offset_value(committed: OffsetAndMetadata) -> bytes:
    """Encode a committed offset. An expiry needs version 1: later versions lack the field."""
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.timestamp,
        expire_timestamp=committed.expires,
    )
    # Version 1 contains an expiry but no leader epoch. That's enough, because requests with a retention (OffsetCommit
    # v2 to v4) don't contain a leader epoch either.
    version = _VALUE_VERSION if committed.expires < 0 else 1
    return _INT16.pack(version) + value.encode(version)


def encode_group_key(group_id: str) -> bytes:
    """Encode the key of a classic group."""
    return _INT16.pack(_GROUP_KEY) + GroupMetadataKey(group=group_id).encode(0)


def encode_group_value(group: ClassicGroup, now: int) -> bytes:
    """Encode a classic group with its members. ``now`` is in ms."""
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=now,
        members=[_encode_member(member, group.protocol) for member in group.members.values()],
    )
    return _INT16.pack(_VALUE_VERSION) + value.encode(_VALUE_VERSION)


def _encode_member(member: ClassicMember, protocol: str | None) -> MemberMetadata:
    return MemberMetadata(
        member_id=member.member_id,
        group_instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout=int(member.rebalance_timeout * 1000),
        session_timeout=int(member.session_timeout * 1000),
        # As in Kafka, only the subscription of the protocol in use is stored. The next JoinGroup brings the others
        # again.
        subscription=member.metadata(protocol),
        assignment=member.assignment,
    )


def decode_key(key: bytes) -> OffsetCommitKey | GroupMetadataKey | None:
    """Decode the key of a committed offset or a classic group; None if the record is of another type."""
    (kind,) = _INT16.unpack_from(key)
    if kind in _OFFSET_KEYS:
        return OffsetCommitKey.decode(key[2:], 0)
    return GroupMetadataKey.decode(key[2:], 0) if kind == _GROUP_KEY else None


def decode_offset_value(value: bytes) -> OffsetAndMetadata:
    """Decode a committed offset."""
    (version,) = _INT16.unpack_from(value)
    read = OffsetCommitValue.decode(value[2:], version)
    return OffsetAndMetadata(
        read.offset, read.leader_epoch, read.metadata, read.commit_timestamp, read.expire_timestamp
    )


def restore_group(group: ClassicGroup, value: bytes, now: float, wall_ms: int) -> None:
    """Restore a classic group from its record.

    Args:
        group: A new group to restore into.
        value: The record's value.
        now: The time on the group's clock (s). Sessions start at this time.
        wall_ms: The wall-clock time (ms) to compare the record's timestamps with.
    """
    (version,) = _INT16.unpack_from(value)
    read = GroupMetadataValue.decode(value[2:], version)
    members = [
        ClassicMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.session_timeout / 1000,
            # Version 0 has no rebalance timeout: the session timeout applies, as in JoinGroup v0.
            (member.rebalance_timeout if member.rebalance_timeout >= 0 else member.session_timeout) / 1000,
            ((read.protocol or "", member.subscription),),
            member.assignment,
        )
        for member in read.members
    ]
    group.restore(
        members,
        now,
        generation=read.generation,
        protocol_type=read.protocol_type,
        protocol=read.protocol,
        leader=read.leader,
    )
    # The retention of offsets continues across a restart, by wall time. max() guards against a clock that was set back.
    if not members and read.current_state_timestamp >= 0:
        group.empty_since = now - max(wall_ms - read.current_state_timestamp, 0) / 1000
