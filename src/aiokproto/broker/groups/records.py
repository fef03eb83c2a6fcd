"""The records of the offsets topic, in Kafka's own format: int16 record type or version, then the payload."""

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

# Key types. Up to Kafka 4.0 they counted as versions of one key; 0 is an offset as well, written by Kafka before 0.9.
_OFFSET_KEYS = (0, 1)
_OFFSET_KEY = 1
_GROUP_KEY = 2
_VALUE_VERSION = 3
"""Version of both values, the one every Kafka since 2.3 reads."""


class OffsetAndMetadata(NamedTuple):
    """A committed offset. ``timestamp`` (ms) is when; ``expires`` (ms) is -1 unless the client set it."""

    offset: int
    leader_epoch: int
    metadata: str
    timestamp: int
    expires: int = -1


def encode_offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """The key of an offset's record."""
    return _INT16.pack(_OFFSET_KEY) + OffsetCommitKey(group=group_id, topic=topic, partition=partition).encode(0)


def encode_offset_value(committed: OffsetAndMetadata) -> bytes:
    """The value of an offset's record. Only version 1 can carry an expiry."""
    value = OffsetCommitValue(
        offset=committed.offset,
        leader_epoch=committed.leader_epoch,
        metadata=committed.metadata,
        commit_timestamp=committed.timestamp,
        expire_timestamp=committed.expires,
    )
    version = _VALUE_VERSION if committed.expires < 0 else 1
    return _INT16.pack(version) + value.encode(version)


def encode_group_key(group_id: str) -> bytes:
    """The key of a group's record."""
    return _INT16.pack(_GROUP_KEY) + GroupMetadataKey(group=group_id).encode(0)


def encode_group_value(group: ClassicGroup, now: int) -> bytes:
    """The value of a group's record. ``now`` in ms."""
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
        subscription=member.metadata(protocol),
        assignment=member.assignment,
    )


def decode_key(key: bytes) -> OffsetCommitKey | GroupMetadataKey | None:
    """What a record is about: an offset or a classic group; None if it is about something else."""
    (kind,) = _INT16.unpack_from(key)
    if kind in _OFFSET_KEYS:
        return OffsetCommitKey.decode(key[2:], 0)
    return GroupMetadataKey.decode(key[2:], 0) if kind == _GROUP_KEY else None


def decode_offset_value(value: bytes) -> OffsetAndMetadata:
    """A committed offset from its record."""
    (version,) = _INT16.unpack_from(value)
    read = OffsetCommitValue.decode(value[2:], version)
    return OffsetAndMetadata(
        read.offset, read.leader_epoch, read.metadata, read.commit_timestamp, read.expire_timestamp
    )


def restore_group(group: ClassicGroup, value: bytes, now: float, wall: int) -> None:
    """Have a group become what its record says. ``now`` by the group's clock (s), ``wall`` by the wall clock (ms)."""
    (version,) = _INT16.unpack_from(value)
    read = GroupMetadataValue.decode(value[2:], version)
    members = [
        ClassicMember(
            member.member_id,
            member.group_instance_id,
            member.client_id,
            member.client_host,
            member.session_timeout / 1000,
            # Records of version 0 have no rebalance timeout; then the session's counts, as in JoinGroup v0.
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
    if not members and read.current_state_timestamp >= 0:
        group.empty_since = now - max(wall - read.current_state_timestamp, 0) / 1000
